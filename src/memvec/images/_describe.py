"""Many photographs at once: on all cores, with a bar, and what cannot be read set aside."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from memvec import checks
from memvec.errors import FileFormatError
from memvec.images._cache import DescriptorCache
from memvec.images._descriptor import ImageDescriptor
from memvec.images._folder import Skipped
from memvec.images._photo import MAX_PIXELS, content_digest, decode_photo, read_content
from memvec.images._sift import SiftConfig, local_descriptors
from memvec.kernels import run_blocks
from memvec.progress import progress_bar
from memvec.types import Float32Array

Result = TypeVar("Result")

# A vocabulary needs variety more than numbers: this many photographs have a million descriptors.
_TRAINING_PHOTOS = 1000


@dataclass(frozen=True, eq=False, repr=False)
class Described:
    """The vectors of photographs, in the order of their paths.

    Attributes
    ----------
    paths : list of str
        The photographs that could be described.
    vectors : ndarray of shape (n_photos, dim)
        Unit rows, float32.
    digests : list of str
        SHA-256 of the content of each file.
    notes : dict of str to tuple of str
        How some photographs were changed while they were read. Photographs found in the cache are
        not decoded and have no notes.
    skipped : list of Skipped
        Files that could not be described, and why.
    n_cached : int
        Number of vectors that came from the cache.
    """

    paths: list[str]
    vectors: Float32Array
    digests: list[str]
    notes: dict[str, tuple[str, ...]]
    skipped: list[Skipped]
    n_cached: int

    def __repr__(self) -> str:
        return (
            f"Described({len(self.paths)} photographs, {self.n_cached} from the cache, "
            f"{len(self.skipped)} skipped)"
        )


@dataclass(frozen=True, eq=False)
class _One:
    vector: Float32Array
    digest: str
    notes: tuple[str, ...]
    cached: bool


def describe_photos(
    paths: Iterable[str | os.PathLike[str]],
    descriptor: ImageDescriptor,
    *,
    cache: DescriptorCache | None = None,
    max_pixels: int = MAX_PIXELS,
    threads: int | None = None,
    progress: bool | None = None,
) -> Described:
    """Return the vectors of photographs; files that cannot be read are reported, not raised.

    Parameters
    ----------
    paths : iterable of paths
        The files, such as `find_photos` returns.
    descriptor : ImageDescriptor
        What turns a photograph into a vector.
    cache : DescriptorCache, optional
        Vectors of files whose content is in the cache are taken from it; new ones are added to it.
    max_pixels : int
        Skip larger photographs.
    threads : int, optional
        How many threads share the photographs; the vectors do not depend on it.
    progress : bool, optional
        Show a bar; None shows it on a terminal.

    Examples
    --------
    >>> rows = np.random.default_rng(0).standard_normal((600, 128))
    >>> from memvec.images import Triangulation
    >>> describe_photos(["missing.jpg"], Triangulation.fit([rows], n_words=2)).skipped
    [Skipped(path='missing.jpg', reason='No such file or directory')]
    """
    where = "describe_photos"
    names = [os.fspath(path) for path in paths]
    max_pixels = checks.integer(max_pixels, "max_pixels", where)

    def describe(path: str) -> _One:
        content = read_content(path)
        digest = content_digest(content)
        known = None if cache is None else cache.get(digest)
        if known is not None:
            return _One(known, digest, (), cached=True)
        photo = decode_photo(content, path, max_pixels)
        vector = descriptor.describe(photo.pixels)
        if cache is not None:
            cache.put(digest, vector)
        return _One(vector, digest, photo.notes, cached=False)

    done, skipped = _attempt(names, describe, "Describing photographs", threads, progress)
    kept = [path for path in names if path in done]
    return Described(
        kept,
        np.array([done[path].vector for path in kept], dtype=np.float32).reshape(
            len(kept), descriptor.dim
        ),
        [done[path].digest for path in kept],
        {path: done[path].notes for path in kept if done[path].notes},
        skipped,
        sum(done[path].cached for path in kept),
    )


def training_bags(
    paths: Sequence[str | os.PathLike[str]],
    *,
    sift: SiftConfig | None = None,
    max_photos: int = _TRAINING_PHOTOS,
    seed: int = 0,
    threads: int | None = None,
    progress: bool | None = None,
) -> tuple[list[Float32Array], list[Skipped]]:
    """Return the local descriptors of photographs to learn from, and the files left out.

    Parameters
    ----------
    paths : sequence of paths
        Photographs; best independent of those that will be searched.
    sift : SiftConfig, optional
        How local descriptors are taken.
    max_photos : int
        Maximum number of photographs to draw.
    seed : int
        Fixes the draw.
    threads, progress
        As in `describe_photos`.
    """
    where = "training_bags"
    names = [os.fspath(path) for path in paths]
    size = min(checks.integer(max_photos, "max_photos", where), len(names))
    drawn = np.sort(checks.generator(seed, where).choice(len(names), size, replace=False))
    chosen = [names[place] for place in drawn]

    def take(path: str) -> Float32Array:
        return local_descriptors(decode_photo(read_content(path), path).pixels, sift)

    done, skipped = _attempt(chosen, take, "Local descriptors", threads, progress)
    return [done[path] for path in chosen if path in done], skipped


def _attempt(
    paths: list[str],
    work: Callable[[str], Result],
    description: str,
    threads: int | None,
    progress: bool | None,
) -> tuple[dict[str, Result], list[Skipped]]:
    """Return what `work` gives for each path, and the paths where it cannot."""
    done: dict[str, Result] = {}
    failed: dict[str, Skipped] = {}

    def attempt(start: int, stop: int) -> None:
        for path in paths[start:stop]:
            reason = _name_problem(path)
            try:
                if not reason:
                    done[path] = work(path)
                    continue
            except FileFormatError as error:
                reason = str(error)
            except OSError as error:
                reason = error.strerror or str(error)
            except MemoryError:
                reason = "It does not fit into memory."
            failed[path] = Skipped(_printable(path), reason)

    with progress_bar(description, len(paths), progress) as advance:
        run_blocks(attempt, len(paths), 1, threads=threads, done=advance)
    return done, [failed[path] for path in dict.fromkeys(paths) if path in failed]


def _name_problem(path: str) -> str:
    """Return why a name cannot be an id: names are bytes, ids are text."""
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return "Its name is not valid UTF-8."
    return ""


def _printable(path: str) -> str:
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
