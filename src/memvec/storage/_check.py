"""Reading a folder again, to see that it is what was written."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from memvec.errors import CorruptIndexError, IndexNotFoundError
from memvec.storage import _disk
from memvec.storage._manifest import MANIFEST, Manifest, checked_path, open_manifest
from memvec.storage._mapping import OpenedFile
from memvec.storage._read import open_array


@dataclass(frozen=True)
class CheckReport:
    """What a check found.

    Attributes
    ----------
    problems : tuple of str
        What is damaged, each with its file; none if everything is as it was written.
    n_files : int
        Files whose checksums were compared; the catalog of a collection is not counted.
    n_bytes : int
        Their size.
    """

    problems: tuple[str, ...]
    n_files: int
    n_bytes: int

    @property
    def ok(self) -> bool:
        """Whether nothing is damaged."""
        return not self.problems

    def __str__(self) -> str:
        counted = f"Checked {self.n_files:,} files ({self.n_bytes:,} bytes). "
        return "\n".join([*self.problems, f"{counted}Problems: {len(self.problems):,}."])


def check_saved(path: str | os.PathLike[str]) -> CheckReport:
    """Read every file that `write_folder` saved and compare its checksum.

    Parameters
    ----------
    path : str or path
        The folder. It is only read, and others may read and replace it meanwhile.

    Raises
    ------
    IndexNotFoundError
        If the folder holds no manifest.
    UnknownVersionError
        If it was saved in a format version that is not known here.
    StorageError
        If the system does not let it be read.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from memvec.storage import write_folder
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     _ = write_folder(f"{parent}/saved", {"offsets": np.array([0, 2, 5])}, {"dim": 8})
    ...     report = check_saved(f"{parent}/saved")
    ...     report.ok, report.n_files
    (True, 2)
    """
    folder = checked_path(path, "check_saved")
    with _disk.refusals(folder):
        if not os.path.lexists(folder / MANIFEST):
            raise IndexNotFoundError(
                f"There is no saved index at {folder}: it holds no {MANIFEST}."
            )
        try:
            return _checked_latest(folder)
        except CorruptIndexError as error:
            return CheckReport((str(error),), 0, 0)


def _checked_latest(folder: Path) -> CheckReport:
    manifest, file = open_manifest(folder)
    while True:
        report = _checked(folder, manifest, file)
        latest, file = open_manifest(folder)
        # A save that ended meanwhile has removed the files named here: the newer ones count.
        if report.ok or latest.generation == manifest.generation:
            return report
        manifest = latest


def _checked(folder: Path, manifest: Manifest, file: OpenedFile) -> CheckReport:
    inside, problems = folder / manifest.generation, []
    _disk.check_folder(inside)
    for array in manifest.arrays.values():
        try:
            open_array(inside / array.file, array, verify=True)
        except CorruptIndexError as error:
            problems.append(str(error))
    sizes = [len(file.content), *(array.saved.size for array in manifest.arrays.values())]
    return CheckReport(tuple(problems), len(sizes), sum(sizes))
