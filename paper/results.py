"""Running an experiment once, and keeping what came of it."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
import os
import platform
import shutil
import time
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from memvec.errors import FileFormatError, MissingExtraError, StorageError
from paper.code_hash import code_hash
from paper.data_sets import DataFolders
from paper.drawing import save_figure
from paper.experiment import SCALES, Experiment, Run, Scale, Verdict
from paper.table import Table

_PACKAGES = ("memvec", "numpy", "scipy", "numba")


@dataclass(frozen=True)
class Result:
    """What came of one experiment at one scale.

    Attributes
    ----------
    name : str
        The experiment.
    scale : {"smoke", "small", "paper"}
        How large the run was.
    seed : int
        Where chance started.
    table : Table or None
        What was computed; None where a package, memory or disk was missing.
    note : str
        Why nothing was computed.
    seconds : float
        How long it took.
    date : str
        When it ended, UTC.
    data : str
        The data sets that were used.
    versions : dict
        Of Python and the packages that matter.
    fingerprint : str
        Of settings, seed and code; a result is used again while it and the files stay the same.
    files : dict of str to str
        Every file or folder that was looked for and its signature, empty where there was none.
    device : str
        Where it was computed: "cpu", or a GPU.
    """

    name: str
    scale: Scale
    seed: int
    table: Table | None
    note: str
    seconds: float
    date: str
    data: str
    versions: dict[str, str]
    fingerprint: str
    files: dict[str, str] = field(default_factory=dict)
    device: str = "cpu"

    def serves(self, mark: str, data: DataFolders) -> bool:
        """Tell whether a run with this fingerprint on this data would compute the same."""
        return (
            self.table is not None
            and self.fingerprint == mark
            and all(data.signature(name) == known for name, known in self.files.items())
        )

    def verdict(self, experiment: Experiment) -> Verdict:
        """Test the claims."""
        return Verdict(note=self.note) if self.table is None else experiment.check(self.table)


def run_experiment(
    experiment: Experiment,
    scale: Scale,
    out: Path,
    *,
    seed: int = 0,
    data: DataFolders | None = None,
    fresh: bool = False,
    progress: bool | None = False,
    device: str = "cpu",
) -> Result:
    """Run an experiment, or return what an earlier run of the same left in the folder.

    The table is written as ``OUT/SCALE/NAME.json`` and ``.csv``, the figure as ``.svg`` and
    ``.png``. A package that is missing, or too little memory or disk, gives a result without a
    table.
    """
    folders = DataFolders() if data is None else data.unasked()
    folder = out / scale
    folder.mkdir(parents=True, exist_ok=True)
    mark = _fingerprint(experiment, scale, seed, device)
    found = load_result(experiment.name, scale, out)
    if found is None or fresh or not found.serves(mark, folders):
        checkpoints = folder / "checkpoints" / f"{experiment.name}-{mark[:12]}"
        if fresh:
            shutil.rmtree(checkpoints, ignore_errors=True)
        run = Run(experiment.settings[scale], scale, seed, folders, checkpoints, progress, device)
        found = _compute(experiment, run, mark)
        _save(found, folder)
    _draw(experiment, found, folder)
    return found


def _compute(experiment: Experiment, run: Run, mark: str) -> Result:
    start = time.perf_counter()
    table, note = None, ""
    try:
        table = experiment.compute(run)
    except (MissingExtraError, StorageError) as error:
        note = str(error)
    seconds = time.perf_counter() - start
    date = time.strftime("%Y-%m-%d %H:%M", time.gmtime())
    return Result(
        experiment.name,
        run.scale,
        run.seed,
        table,
        note,
        round(seconds, 2),
        date,
        run.data.key(),
        _versions(),
        mark,
        dict(run.data.asked),
        run.device,
    )


def _versions() -> dict[str, str]:
    return {"python": platform.python_version()} | {name: version(name) for name in _PACKAGES}


def _fingerprint(experiment: Experiment, scale: Scale, seed: int, device: str) -> str:
    code = code_hash(Path(inspect.getfile(experiment.compute)))
    settings = json.dumps(dict(experiment.settings[scale]), sort_keys=True, default=str)
    parts = [experiment.name, scale, str(seed), settings, code]
    parts += [] if device == "cpu" else [device]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _save(result: Result, folder: Path) -> None:
    _write(folder / f"{result.name}.json", json.dumps(dataclasses.asdict(result), indent=1))
    if result.table is not None:
        _write(folder / f"{result.name}.csv", result.table.to_csv())


def _write(path: Path, text: str) -> None:
    """Write a file so that it is there as a whole or not at all."""
    part = path.with_suffix(path.suffix + ".part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)


def load_result(name: str, scale: Scale, out: Path) -> Result | None:
    """Return what a run left in the folder, or None."""
    return read_result(out / scale / f"{name}.json")


def read_result(path: Path) -> Result | None:
    """Return the result that a file holds, or None where there is no file."""
    if not path.is_file():
        return None
    try:
        fields: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        table = fields.pop("table")
        return Result(table=None if table is None else _table(table), **fields)
    except (ValueError, TypeError, KeyError) as error:
        raise FileFormatError(f"{path} is no result of an experiment: {error!r}.") from None


def _table(fields: dict[str, Any]) -> Table:
    rows = tuple(tuple(row) for row in fields["rows"])
    return Table(fields["title"], tuple(fields["columns"]), rows)


def latest_result(name: str, out: Path) -> Result | None:
    """Return the result at the largest scale that was run."""
    for scale in reversed(SCALES):
        found = load_result(name, scale, out)
        if found is not None and found.table is not None:
            return found
    return None


def _draw(experiment: Experiment, result: Result, folder: Path) -> None:
    if experiment.plot is None or result.table is None:
        return
    try:
        save_figure(experiment.plot(result.table), folder / experiment.name)
    except MissingExtraError:
        return  # the numbers are there; only pictures of them need Matplotlib


__all__ = ["Result", "latest_result", "load_result", "read_result", "run_experiment"]
