"""A library of photographs: a collection whose ids are paths, and the descriptor that fills it.

::

    holiday.photos/
      descriptor/       what turns a photograph into a vector
      collection/       the vectors, by path
      vectors.sqlite    vectors by content, so that nothing is computed twice

This is the one file of the room that knows collections.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from memvec import checks
from memvec.collection import Collection, open_collection
from memvec.errors import FileFormatError, IndexNotFoundError
from memvec.images._cache import DescriptorCache
from memvec.images._describe import Described, describe_photos
from memvec.images._descriptor import (
    ImageDescriptor,
    fingerprint,
    open_descriptor,
    save_descriptor,
)
from memvec.images._folder import find_photos
from memvec.images._photo import MAX_PIXELS, read_photo
from memvec.images._results import (
    FolderReport,
    PhotoCopy,
    PhotoDuplicates,
    PhotoHit,
    PhotoHits,
)
from memvec.kernels import canonical_score_pairs
from memvec.storage import DESCRIPTOR, Kind, check_free, check_kind, disk
from memvec.types import Float32Array, IntArray

_COLLECTION, _CACHE = "collection", "vectors.sqlite"
# One transaction each: a library of many photographs is stored as it is described.
_BATCH = 1000


class PhotoLibrary:
    """A library on disk that is searched by photographs.

    Made by :meth:`create` or :meth:`open`; one writer at a time.
    """

    def __init__(self, path: Path, descriptor: ImageDescriptor, collection: Collection) -> None:
        self._path = path
        self._collection = collection
        self.descriptor = descriptor

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        descriptor: ImageDescriptor,
        *,
        similarity: float,
        miss_rate: float = 0.01,
    ) -> PhotoLibrary:
        """Create a library, or open one that was created with the same descriptor and settings.

        Parameters
        ----------
        path : str or path
            A new folder, or the folder of a library.
        descriptor : ImageDescriptor
            Turns photographs into vectors; it is saved with the library.
        similarity : float
            α₀ in (0, 1], the cosine above which photographs are found.
        miss_rate : float, default 0.01
            ε in (0, 1), the share of matches that searches may miss.
        """
        where = "PhotoLibrary.create"
        folder = checks.path(path, "path", where)
        similarity = checks.similarity(similarity, where)
        miss_rate = checks.miss_rate(miss_rate, where)
        _check_place(folder, where)
        folder.mkdir(exist_ok=True)
        _check_no_links(folder)
        made = cls.exists(folder)
        if made:
            _check_same(open_descriptor(folder / DESCRIPTOR), descriptor, folder, where)
        collection = open_collection(
            folder / _COLLECTION, dim=descriptor.dim, similarity=similarity, miss_rate=miss_rate
        )
        try:
            if not made:  # last, since its presence makes the folder a library
                save_descriptor(descriptor, folder / DESCRIPTOR)
        except BaseException:
            collection.close()
            raise
        return cls(folder, descriptor, collection)

    @staticmethod
    def exists(path: str | os.PathLike[str]) -> bool:
        """Tell whether there is a library at a path."""
        return (checks.path(path, "path", "PhotoLibrary.exists") / DESCRIPTOR).exists()

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, read_only: bool = False) -> PhotoLibrary:
        """Open a library."""
        folder = checks.path(path, "path", "PhotoLibrary.open")
        if not cls.exists(folder):
            check_kind(folder, Kind.LIBRARY)
            raise IndexNotFoundError(
                f"There is no library of photographs at {folder}. `memvec images index` and "
                "PhotoLibrary.create make one."
            )
        _check_no_links(folder)
        descriptor = open_descriptor(folder / DESCRIPTOR)
        collection = open_collection(folder / _COLLECTION, read_only=read_only)
        return cls(folder, descriptor, collection)

    @property
    def similarity(self) -> float:
        """The cosine above which photographs are found by default, α₀."""
        return self._collection.settings.similarity

    def __len__(self) -> int:
        return len(self._collection)

    def __iter__(self) -> Iterator[str]:
        """Yield the paths of all photographs."""
        return (str(name) for name in self._collection)

    def __contains__(self, path: object) -> bool:
        return path in self._collection

    def __repr__(self) -> str:
        return f"PhotoLibrary({len(self)} photographs, {self.descriptor!r})"

    def close(self) -> None:
        """Close the library and release its lock."""
        self._collection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def add_folder(
        self,
        folder: str | os.PathLike[str],
        *,
        max_pixels: int = MAX_PIXELS,
        threads: int | None = None,
        progress: bool | None = None,
    ) -> FolderReport:
        """Update the library from a folder and its subfolders.

        New and changed photographs are described; those that are gone are removed.

        Parameters
        ----------
        folder : str or path
            The folder of the photographs.
        max_pixels, threads, progress
            As in `describe_photos`.
        """
        root = os.path.abspath(folder)
        paths = find_photos(root)
        before = self._digests(root)
        with DescriptorCache(self._path / _CACHE, self.descriptor) as cache:
            described = describe_photos(
                paths,
                self.descriptor,
                cache=cache,
                max_pixels=max_pixels,
                threads=threads,
                progress=progress,
            )
        self._store(described, before)
        gone = sorted(set(before) - set(described.paths))
        if gone:
            self._collection.delete(gone)
        return _report(described, before, len(gone))

    def search(
        self,
        photo: str | os.PathLike[str],
        similarity: float | None = None,
        *,
        k: int | None = None,
        max_pixels: int = MAX_PIXELS,
    ) -> PhotoHits:
        """Find photographs like a given one, which need not be in the library.

        Parameters
        ----------
        photo : str or path
            The file.
        similarity : float, optional
            Find everything with at least this cosine; that of the library by default.
        k : int, optional
            Find the k most similar ones instead, or all if the library has fewer.
        max_pixels : int
            Refuse larger photographs.
        """
        pixels = read_photo(Path(photo), max_pixels=max_pixels).pixels
        try:
            query = self.descriptor.describe(pixels)
        except FileFormatError as error:
            raise FileFormatError(f"{photo} cannot be described: {error}") from None
        if k is None:
            found = self._collection.range_search(query, similarity)
            [row] = found
            return PhotoHits(_hits(row.ids, row.scores), found.certificate)
        best = self._collection.search(query, k)
        return PhotoHits(_hits(best.ids[0], best.scores[0]), best.certificate)

    def duplicates(
        self,
        similarity: float | None = None,
        *,
        groups: Literal["star", "components"] = "star",
        below: str | os.PathLike[str] | None = None,
        progress: bool | None = None,
    ) -> PhotoDuplicates:
        """Find groups of similar photographs in the library.

        Parameters
        ----------
        similarity : float, optional
            Pairs with at least this cosine; that of the library by default.
        groups : {"star", "components"}
            In a star, every photograph is similar to the first. In a component, photographs are
            connected by chains, whose ends may show different things.
        below : str or path, optional
            Only photographs in this folder or below it.
        progress : bool, optional
            Show a bar; None shows it on a terminal.
        """
        level = self.similarity if similarity is None else similarity
        where = None if below is None else _below(below)
        # A filter weakens the certificate, so none is given where it would pass everything.
        if where is not None and len(self) == sum(1 for _ in self._collection.items(where)):
            where = None
        found = self._collection.deduplicate(level, groups=groups, where=where, progress=progress)
        linked = _star if groups == "star" else _chain
        made = [
            self._group([str(name) for name in (group.kept, *group.dropped)], linked)
            for group in found.groups
        ]
        made.sort(key=lambda group: (-len(group), group[0].path))
        return PhotoDuplicates(made, float(level), found.certificate)

    def _group(
        self, names: list[str], linked: Callable[[Float32Array], IntArray]
    ) -> list[PhotoCopy]:
        """Return photographs with their cosines to the first, the nearest first, and their links.

        `linked` tells the place of each one's link from the vectors, those of the first at place 0.
        """
        vectors = np.array([item.vector for item in self._collection.get(names)])
        rows = np.arange(len(vectors))
        links = linked(vectors)
        scores = canonical_score_pairs(vectors, vectors, rows, np.zeros_like(rows)).tolist()
        near = canonical_score_pairs(vectors, vectors, rows, links).tolist()
        copies = [
            PhotoCopy(names[row], scores[row], PhotoHit(names[links[row]], near[row]))
            for row in range(1, len(names))
        ]
        copies.sort(key=lambda copy: (-copy.score, copy.path))
        return [PhotoCopy(names[0], scores[0]), *copies]

    def _digests(self, root: str) -> dict[str, str]:
        """Return the content's digest of each photograph below a folder."""
        return {
            str(item.id): str((item.metadata or {}).get("sha256"))
            for item in self._collection.items(_below(root))
        }

    def _store(self, described: Described, before: Mapping[str, str]) -> None:
        fresh = [
            place
            for place, (path, digest) in enumerate(
                zip(described.paths, described.digests, strict=True)
            )
            if before.get(path) != digest
        ]
        for start in range(0, len(fresh), _BATCH):
            some = fresh[start : start + _BATCH]
            self._collection.upsert(
                described.vectors[some],
                [described.paths[place] for place in some],
                [
                    {"path": described.paths[place], "sha256": described.digests[place]}
                    for place in some
                ],
            )


def _below(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the filter that paths below a folder pass: those from `folder/` to before `folder0`.

    The separator is followed by another character in the order of texts, and by every name.
    """
    start = os.path.join(os.path.abspath(folder), "")
    return {"path": {"$gte": start, "$lt": start[:-1] + chr(ord(start[-1]) + 1)}}


def _star(vectors: Float32Array) -> IntArray:
    """Return that all are linked to the first."""
    return np.zeros(len(vectors), dtype=np.int64)


def _chain(vectors: Float32Array) -> IntArray:
    """Return the links of the spanning tree with the largest cosines, grown from the first (Prim).

    Examples
    --------
    >>> _chain(np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]], dtype=np.float32)).tolist()
    [0, 2, 0]
    """
    links = np.zeros(len(vectors), dtype=np.int64)
    nearest = vectors @ vectors[0]
    outside = np.ones(len(vectors), dtype=bool)
    outside[0] = False
    while outside.any():
        joined = int(np.argmax(np.where(outside, nearest, -np.inf)))
        outside[joined] = False
        cosines = vectors @ vectors[joined]
        closer = outside & (cosines > nearest)
        links[closer], nearest[closer] = joined, cosines[closer]
    return links


def _hits(ids: Iterable[object], scores: Iterable[float]) -> list[PhotoHit]:
    return [
        PhotoHit(str(name), float(score))
        for name, score in zip(ids, scores, strict=True)
        if name is not None
    ]


def _report(described: Described, before: Mapping[str, str], n_gone: int) -> FolderReport:
    pairs = list(zip(described.paths, described.digests, strict=True))
    n_unchanged = sum(before.get(path) == digest for path, digest in pairs)
    n_known = sum(path in before for path in described.paths)
    return FolderReport(
        n_added=len(pairs) - n_known,
        n_changed=n_known - n_unchanged,
        n_unchanged=n_unchanged,
        n_removed=n_gone,
        n_computed=len(pairs) - described.n_cached,
        notes=described.notes,
        skipped=described.skipped,
    )


def _check_place(folder: Path, where: str) -> None:
    expected = "a new path in an existing folder, an empty folder or a library"
    check_free(folder, Kind.LIBRARY, where)
    if folder.exists():
        own = {DESCRIPTOR, _COLLECTION, _CACHE, f"{_CACHE}-wal", f"{_CACHE}-shm"}
        if not folder.is_dir() or set(os.listdir(folder)) - own:
            raise checks.bad_value("path", where, expected, folder)
    elif not folder.parent.is_dir():
        raise checks.bad_value("path", where, expected, folder)


def _check_same(
    kept: ImageDescriptor, descriptor: ImageDescriptor, folder: Path, where: str
) -> None:
    if fingerprint(kept) != fingerprint(descriptor):
        expected = f"the one that {folder} was made with, {kept!r}"
        raise checks.bad_value("descriptor", where, expected, repr(descriptor))


def _check_no_links(folder: Path) -> None:
    """Raise where a folder of the library is a link: it would lead to somebody else's."""
    for name in (DESCRIPTOR, _COLLECTION):
        disk.check_folder(folder / name)
