"""What a library of photographs returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memvec.guarantee import Certificate
from memvec.images._folder import Skipped


@dataclass(frozen=True)
class FolderReport:
    """What became of the files of a folder.

    Attributes
    ----------
    n_added, n_changed, n_unchanged, n_removed : int
        Photographs that are new, have another content than before, are as they were, and are gone
        or can no longer be read.
    n_computed : int
        How many had to be described; the others have a content seen before.
    notes : dict of str to tuple of str
        What was unusual about photographs that were read all the same.
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
    """A photograph found, and its cosine with what was asked."""

    path: str
    score: float


@dataclass(frozen=True)
class PhotoHits:
    """Photographs like the one asked, the best first, and what is promised about others."""

    hits: list[PhotoHit]
    certificate: Certificate


@dataclass(frozen=True)
class PhotoCopy:
    """A photograph of a group of those that are alike.

    Attributes
    ----------
    path : str
        The file.
    score : float
        Its cosine with the first of the group.
    link : PhotoHit or None
        The photograph that brings it into the group, with their cosine, which is at least the one
        asked. In a star that is the first; the first itself has none.
    """

    path: str
    score: float
    link: PhotoHit | None = None


@dataclass(frozen=True)
class PhotoDuplicates:
    """Photographs that are alike.

    Attributes
    ----------
    groups : list of list of PhotoCopy
        The largest groups first; in each, the photograph that the library took in first and the
        others by their cosines with it.
    similarity : float
        The cosine that was asked.
    certificate : Certificate
        What is promised about the pairs missed.
    """

    groups: list[list[PhotoCopy]]
    similarity: float
    certificate: Certificate
