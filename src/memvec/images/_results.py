"""What a library of photographs returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memvec.guarantee import Certificate
from memvec.images._folder import Skipped


@dataclass(frozen=True)
class FolderReport:
    """The changes that adding a folder made.

    Attributes
    ----------
    n_added, n_changed, n_unchanged, n_removed : int
        Number of photographs that are new, have changed, are unchanged, and are gone or can no
        longer be read.
    n_computed : int
        Number of photographs that were described; the content of the others was known.
    notes : dict of str to tuple of str
        How some photographs were changed while they were read.
    skipped : list of Skipped
        Files that cannot be used, and why.
    """

    n_added: int
    n_changed: int
    n_unchanged: int
    n_removed: int
    n_computed: int
    notes: Mapping[str, tuple[str, ...]]
    skipped: list[Skipped]


@dataclass(frozen=True)
class PhotoHit:
    """A photograph found, and its cosine with the one asked for."""

    path: str
    score: float


@dataclass(frozen=True)
class PhotoHits:
    """Photographs like the one asked for, best first, and the promise about missed ones."""

    hits: list[PhotoHit]
    certificate: Certificate


@dataclass(frozen=True)
class PhotoCopy:
    """A photograph in a group of similar ones.

    Attributes
    ----------
    path : str
        The file.
    score : float
        Its cosine with the first photograph of the group.
    link : PhotoHit or None
        The photograph that links it to the group, with their cosine, which is at least the one
        asked for. In a star, that is the first photograph; the first itself has none.
    """

    path: str
    score: float
    link: PhotoHit | None = None


@dataclass(frozen=True)
class PhotoDuplicates:
    """Groups of similar photographs.

    Attributes
    ----------
    groups : list of list of PhotoCopy
        The largest groups first. In each group, the photograph that was added to the library first,
        then the others by their cosines with it.
    similarity : float
        The cosine asked for.
    certificate : Certificate
        What is promised about the pairs missed.
    """

    groups: list[list[PhotoCopy]]
    similarity: float
    certificate: Certificate
