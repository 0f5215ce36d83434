"""A saved index: every array and the manifest, damaged by chance and forged on purpose."""

from __future__ import annotations

import functools
import shutil
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from clouds import around
from fuzz import ANY_ANSWER, CHANGED, RIGHT, Trial, damage
from fuzz.damage import Rng
from fuzz.forgery import FORGERIES
from memvec import Index, IndexConfig
from memvec.storage import open_folder, write_folder
from memvec.types import RowType

# Read in part only by an opening without `verify`: a flipped bit may change an answer.
LARGE = {"vectors.npy", "codes.npy", "fine_codes.npy", "prefix.npy", "unit_vectors.npy"}
SIMILARITY = 0.7

# Every kind of array there is: groups, second units, words, projections, a reserve.
CONFIGS = {
    "groups and two units a vector": IndexConfig(
        assignment="kmeans",
        levels=2,
        units_per_vector=2,
        unit_size=8,
        group_size=60,
        reserve=100,
        member_bits=4,
    ),
    "random units with codes": IndexConfig(assignment="random", unit_size=4, reserve=0),
    "float32 units": IndexConfig(codes="none", unit_size=6, reserve=100),
    "rows of int8": IndexConfig(assignment="kmeans", unit_size=8, reserve=100),
    "rows of float16": IndexConfig(codes="none", unit_size=6),
    "projected": IndexConfig(
        assignment="kmeans", units_per_vector=2, unit_size=8, pca_dim=70, whiten=True
    ),
}
DTYPES: dict[str, RowType] = {"rows of int8": "int8", "rows of float16": "float16"}
# A projected index takes ten times as long to answer.
_SHARES = [0.25, 0.2, 0.17, 0.2, 0.1, 0.08]


@dataclass(frozen=True)
class Subject:
    """An index as it was saved, and what it answers."""

    name: str
    folder: Path
    queries: np.ndarray
    answers: list[np.ndarray]

    def copy(self, folder: Path) -> Path:
        """Copy the index; return where its arrays are."""
        shutil.copytree(self.folder, folder)
        return folder / "g000001"

    def ask(self, folder: Path, *, verify: bool = False) -> str:
        """Open an index and compare everything it answers."""
        found = answers(Index.open(folder, verify=verify), self.queries)
        same = all(map(np.array_equal, found, self.answers))
        return RIGHT if same and len(found) == len(self.answers) else CHANGED


def answers(index: Index, queries: np.ndarray) -> list[np.ndarray]:
    """Return what an index answers to a bit of everything."""
    hits = index.range_search(queries)
    exact = index.range_search(queries, 0.8, guarantee="exact")
    top = index.search(queries[:4], 5)
    explained = index.explain(queries[0], int(hits.ids[0]) if len(hits.ids) else 0)
    return [
        *(hits.ids, hits.scores, hits.offsets),
        *(exact.ids, exact.scores),
        *(top.ids, top.scores),
        *(index.unit_scores(queries[:2]), index.labels, index.reserve, index.unit_sizes),
        np.array([explained.reason, repr(index), str(index.design)]),
    ]


@functools.cache
def subject(name: str, workshop: Path) -> Subject:
    """Build and save an index of one kind."""
    rng = np.random.default_rng(5)
    rows = around(rng.standard_normal((60, 130)), 0.5, 6, 700).astype(np.float32)
    queries = around(rows[:12], 0.03, 7, 12).astype(np.float32)
    dtype = DTYPES.get(name, "float32")
    index = Index.build(rows, similarity=SIMILARITY, dtype=dtype, config=CONFIGS[name])
    folder = workshop / "whole" / name.replace(" ", "-")
    folder.parent.mkdir(exist_ok=True)
    index.save(folder)
    return Subject(name, folder, queries, answers(Index.open(folder), queries))


def trials(workshop: Path, seed: int, count: int) -> Iterator[Trial]:
    """Yield so many trials, the kinds in turn and everything else at random."""
    makers = [_accident, _forgery, _accident, _swap, _forgery, _link, _accident, _saving, _forgery]
    for number in range(count):
        rng = np.random.default_rng([seed, number])
        chosen = subject(str(rng.choice(list(CONFIGS), p=_SHARES)), workshop)
        yield makers[number % len(makers)](chosen, rng)


def _accident(chosen: Subject, rng: Rng) -> Trial:
    what = str(rng.choice(list(damage.ACCIDENTS), p=_WEIGHTS))
    names = [path.relative_to(chosen.folder) for path in damage.files_below(chosen.folder)]
    name = names[int(rng.integers(len(names)))]
    verify = bool(rng.random() < 0.3)

    def make(folder: Path, outside: Path) -> None:
        chosen.copy(folder)
        damage.ACCIDENTS[what](folder / name, rng)

    is_large = name.name in LARGE and not verify
    return Trial(
        f"{what} of vectors or codes, not verified" if is_large and what in _CHANGES else what,
        f"{chosen.name}: {what}: {name} verify={verify}",
        make,
        functools.partial(chosen.ask, verify=verify),
        **({"accepts": ANY_ANSWER} if is_large else {}),
    )


_CHANGES = ("flipped bit", "overwritten bytes")
_WEIGHTS = np.array([6, 3, 2, 1, 1, 1, 1]) / 15


def _swap(chosen: Subject, rng: Rng) -> Trial:
    """Exchange two arrays of an index, or one with that of another index."""
    arrays = damage.files_below(chosen.folder / "g000001")
    one, other = rng.choice(len(arrays), 2, replace=False)

    def make(folder: Path, outside: Path) -> None:
        inside = chosen.copy(folder)
        damage.swap(inside / arrays[one].name, inside / arrays[other].name)

    name = f"{chosen.name}: {arrays[one].name} and {arrays[other].name}"
    return Trial("two arrays swapped", name, make, chosen.ask)


def _forgery(chosen: Subject, rng: Rng) -> Trial:
    """Forge arrays or settings, and give them the checksums that belong to them."""
    kind = str(rng.choice(list(FORGERIES)))
    arrays, meta = open_folder(chosen.folder)
    arrays = {name: np.array(array) for name, array in arrays.items()}
    done = FORGERIES[kind].forge(arrays, meta, rng)

    def make(folder: Path, outside: Path) -> None:
        _sign(arrays, meta)
        write_folder(folder, arrays, meta)

    return Trial(
        f"forged, checksums right: {kind}",
        f"{chosen.name}: {done}",
        make,
        functools.partial(chosen.ask, verify=True),
        FORGERIES[kind].accepts,
    )


def _sign(arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> None:
    """Give the settings the checksums of forged arrays, as far as there is anything to sum."""
    evidence = meta.get("evidence")
    if not isinstance(evidence, dict):
        return
    if evidence.get("table"):
        with suppress(KeyError, IndexError, ValueError, TypeError):
            evidence["table"] = _sum_of_table(arrays)
    if "keys" in arrays and arrays.get("unit_vectors", np.empty(0)).ndim:
        units = arrays["unit_vectors"] if "unit_vectors" in arrays else np.empty((0, 1))
        some = units[:: max(1, len(units) // 64)]
        evidence["state"] = (
            f"{zlib.crc32(some.tobytes(), zlib.crc32(arrays['keys'].tobytes())):08x}"
        )


def _sum_of_table(arrays: dict[str, np.ndarray]) -> str:
    """Return the checksum of the calibration, whose columns are summed as wide as they are read."""
    seen = arrays["calibration_stages"] != 0
    n_pairs = len(arrays["calibration_keys"])
    crc = 0
    for name in ("queries", "cosines", "ranks", "keys", "copies", "scores", "slopes"):
        if name == "copies":
            column = arrays.get("calibration_copies", np.ones(n_pairs, np.float32))
        else:
            column = arrays[f"calibration_{name}"]
        if name in ("queries", "ranks", "keys"):
            column = column.astype(np.int64)
        elif name == "cosines":
            column = column.astype(np.float64)
        elif name in ("scores", "slopes"):
            wide = np.full((n_pairs, len(seen)), np.inf if name == "scores" else 0.0, np.float32)
            wide[:, seen] = column
            column = wide
        crc = zlib.crc32(np.ascontiguousarray(column).tobytes(), crc)
    return f"{crc:08x}"


def _link(chosen: Subject, rng: Rng) -> Trial:
    """Put a link in place of a file or of the folder of arrays, to the same content elsewhere."""
    inside = ["manifest.json", "g000001", *_array_names(chosen)]
    name = inside[int(rng.integers(len(inside)))]
    empty = bool(rng.random() < 0.3)

    def make(folder: Path, outside: Path) -> None:
        chosen.copy(folder)
        damage.link_away(folder / name, outside / "linked")
        if empty:
            (folder / name).unlink()
            (folder / name).symlink_to(outside / "nowhere")

    where = f"{chosen.name}: {name}{', leading nowhere' if empty else ''}"
    return Trial("link inside, opening", where, make, chosen.ask)


def _array_names(chosen: Subject) -> list[str]:
    return [f"g000001/{path.name}" for path in damage.files_below(chosen.folder / "g000001")]


def _saving(chosen: Subject, rng: Rng) -> Trial:
    """Save over an index in whose folder somebody has prepared something."""
    names = ["manifest.json", "manifest.json.tmp", "g000001", "g000002", "g999999999999999999"]
    name = str(rng.choice([*names, *_array_names(chosen)[:4]]))
    what = str(rng.choice(["link", "hard link", "pipe", "folder"]))
    fresh = bool(rng.random() < 0.3)

    def make(folder: Path, outside: Path) -> None:
        chosen.copy(folder)
        if fresh:
            (folder / "manifest.json").unlink()
        _PREPARED[what](folder / name, outside)

    def ask(folder: Path) -> str:
        Index.open(chosen.folder).save(folder)
        return chosen.ask(folder, verify=True)

    state = ", no manifest" if fresh else ""
    return Trial(
        "saving over something prepared", f"{chosen.name}: {what} {name}{state}", make, ask
    )


def _prepare_link(path: Path, outside: Path) -> None:
    if path.exists():
        damage.link_away(path, outside / "linked")
    else:
        path.symlink_to(outside / "g000001" if path.name[0] == "g" else outside / "notes.txt")


def _prepare_hard_link(path: Path, outside: Path) -> None:
    _clear(path)
    path.hardlink_to(outside / "notes.txt")


def _prepare_pipe(path: Path, outside: Path) -> None:
    _clear(path)
    path.touch()
    damage.pipe(path, np.random.default_rng(0))


def _prepare_folder(path: Path, outside: Path) -> None:
    _clear(path)
    path.mkdir()
    (path / "keys.npy").symlink_to(outside / "keys.npy")
    (path / "sub.npy").symlink_to(outside / "g000001")


def _clear(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


_PREPARED: dict[str, Callable[[Path, Path], None]] = {
    "link": _prepare_link,
    "hard link": _prepare_hard_link,
    "pipe": _prepare_pipe,
    "folder": _prepare_folder,
}
