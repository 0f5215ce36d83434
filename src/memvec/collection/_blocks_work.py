"""The folder of a deduplication by blocks: its manifest, files, and receipts of finished tasks.

::

    pairs/
      _manifest.json              the plan, and the result once everything is done
      pairs-copies.parquet        what was found; names without _ are for readers of all pairs
      pairs-00000-00001.parquet
      _work/                      gone when everything is done
        join-00000-00001.json     receipt of a task: its files with size and CRC-32

A task writes its files first and its receipt last, which is what makes it done. After a crash,
files are compared with the receipts, and what is missing or damaged is done again.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np

from memvec.collection._blocks_plan import BlockPlan, Task
from memvec.collection._checksums import check_size, check_sum, sum_of
from memvec.errors import CorruptIndexError, UnknownVersionError, damaged
from memvec.storage import FileSum, disk
from memvec.types import Float32Array

MANIFEST = "_manifest.json"
WORK = "_work"
VERSION = 2
_LARGEST_JSON = 1 << 26


class Written(NamedTuple):
    """A file that a task has written, with its checksum."""

    path: Path
    saved: FileSum

    @classmethod
    def of(cls, path: Path) -> Written:
        """Read a file again for its checksum."""
        return cls(path, sum_of(path))

    @classmethod
    def below(cls, folder: Path, saved: Mapping[str, FileSum]) -> list[Written]:
        """Return the files of a folder whose checksums are known."""
        return [cls(folder / name, one) for name, one in saved.items()]


class WorkFolder:
    """Where the files of a plan are.

    Parameters
    ----------
    out : Path
        The folder of pairs.
    plan : BlockPlan
        What is done there.
    """

    def __init__(self, out: Path, plan: BlockPlan) -> None:
        self.out, self.plan, self.inner = out, plan, out / WORK

    def rows(self, block: int) -> Path:
        """Return the file of the unit rows of a block, which its index takes the place of."""
        return self.inner / f"rows-{block:05d}.f32"

    def names(self, block: int) -> Path:
        """Return the table of ids and scores of a block."""
        return self.inner / f"names-{block:05d}.parquet"

    def index(self, block: int) -> Path:
        """Return the folder of the index of a block."""
        return self.inner / f"index-{block:05d}"

    def table(self, block: int) -> Path:
        """Return the folder of what calibration queries find in a block."""
        return self.inner / f"table-{block:05d}"

    def found(self, task: Task) -> Path:
        """Return the file of the pairs of rows that a join has found."""
        return self.inner / f"{task.name}.rows"

    def pairs(self, task: Task) -> Path:
        """Return the table of pairs that a task makes."""
        if task.kind == "copies":
            return self.out / "pairs-copies.parquet"
        return self.out / f"pairs-{task.left:05d}-{task.right:05d}.parquet"

    def finish(self, task: Task, files: Iterable[Path | Written], **facts: Any) -> None:
        """Write down that a task is done, with the checksums of its files."""
        written = [file if isinstance(file, Written) else Written.of(file) for file in files]
        sums = {one.path.relative_to(self.out).as_posix(): one.saved for one in written}
        write_json(self._receipt(task), {"files": sums, **facts})

    def begin(self, task: Task) -> None:
        """Remove what is left of a task that was not finished, or whose files are damaged."""
        with suppress(FileNotFoundError):
            disk.remove_file(self._receipt(task))
        if task.kind == "index":
            for folder in (self.index(task.left), self.table(task.left)):
                shutil.rmtree(folder, ignore_errors=True)

    def receipt(self, task: Task) -> dict[str, Any] | None:
        """Return what was written down; None where the task is not done."""
        with suppress(OSError, ValueError):
            return read_json(self._receipt(task))
        return None

    def facts(self, task: Task) -> dict[str, Any]:
        """Return what a task that is done has found."""
        receipt = self.receipt(task)
        if receipt is None:
            raise damaged(self._receipt(task), "it is missing, or not a receipt")
        return receipt

    def tables(self, task: Task) -> list[tuple[str, list[Any]]]:
        """Return the tables of pairs that a task has made, with their checksums."""
        files = self.facts(task)["files"].items()
        return [(name, saved) for name, saved in files if name.startswith("pairs-")]

    def _receipt(self, task: Task) -> Path:
        return self.inner / f"{task.name}.json"

    def is_whole(self, task: Task, besides: Iterable[Path] = ()) -> bool:
        """Tell whether a task is done and its files are what it wrote; some are not looked at."""
        receipt, skipped = self.receipt(task), set(besides)
        if receipt is None:
            return False
        try:
            for name, saved in receipt["files"].items():
                if not is_inside(name):
                    return False
                if self.out / name not in skipped:
                    check_sum(self.out / name, FileSum(*saved))
        except (AttributeError, CorruptIndexError, KeyError, OSError, TypeError):
            return False
        return True

    def check_size(self, path: Path, task: Task) -> None:
        """Raise where a file that a task has written is missing or of another size."""
        check_size(path, FileSum(*self.facts(task)["files"][path.relative_to(self.out).as_posix()]))

    def save(self, name: str, array: np.ndarray[Any, Any]) -> Path:
        """Write an array to a file."""
        path = self.inner / name
        with path.open("wb") as file:
            np.save(file, array, allow_pickle=False)
        return path

    def load(self, name: str) -> np.ndarray[Any, Any]:
        """Map an array that was saved."""
        return np.asarray(np.load(self.inner / name, mmap_mode="r", allow_pickle=False))

    def mapped_rows(self, path: Path) -> Float32Array:
        """Map a file of unit rows; a plain array, as the compiled loops know them."""
        rows = np.memmap(path, dtype=np.float32, mode="r+").reshape(-1, self.plan.dim)
        return rows.view(np.ndarray)

    def remove(self) -> None:
        """Remove everything but the pairs and the manifest."""
        if disk.is_folder(self.inner):
            shutil.rmtree(self.inner)


def is_inside(name: str) -> bool:
    """Tell whether a name is that of something below the folder it is looked for in."""
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a file of JSON, whole or not at all."""
    unfinished = path.with_name(f"{path.name}.tmp")
    with unfinished.open("wb") as file:
        disk.write(file, json.dumps(content, indent=1).encode())
        disk.sync(file)
    disk.replace(unfinished, path)
    disk.sync_folder(path.parent)


def read_json(path: Path) -> dict[str, Any]:
    """Return what a file of JSON holds."""
    with disk.open_file(path) as file:
        content = json.loads(file.read(_LARGEST_JSON))
    if not isinstance(content, dict):
        raise ValueError(f"{path} holds no object")
    return content


def read_manifest(out: Path) -> dict[str, Any] | None:
    """Return the manifest of a folder of pairs; None where there is none."""
    path = out / MANIFEST
    if disk.kind(path) is None:
        return None
    try:
        manifest = read_json(path)
        version, _ = manifest["version"], manifest["plan"]
    except (KeyError, ValueError) as error:
        raise damaged(path, f"it is not the manifest of a deduplication ({error})") from None
    if version != VERSION:
        raise UnknownVersionError(
            f"{path} is of version {version!r}; this memvec knows version {VERSION}."
        )
    return manifest


def write_manifest(out: Path, plan: BlockPlan, result: Mapping[str, Any] | None) -> None:
    """Write the plan down, and the result once there is one."""
    write_json(out / MANIFEST, {"version": VERSION, "plan": plan.record, "result": result})
