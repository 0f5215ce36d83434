"""Opening a collection, or creating one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

from memvec import checks
from memvec.collection._collection import Collection
from memvec.collection._searches import Online
from memvec.collection._settings import checked_settings
from memvec.collection._store import Store
from memvec.guarantee import Guarantee
from memvec.index import IndexConfig
from memvec.metric import Metric, checked_level, checked_metric
from memvec.search import check_device
from memvec.types import RowType


@contextmanager
def scratch_collection(
    *, dim: int, similarity: float, metric: Metric, seal_at: int
) -> Iterator[Collection]:
    """Make a collection that is removed at the end of the block; nothing waits for the disk.

    Parameters
    ----------
    dim, metric, seal_at
        As in :func:`open_collection`.
    similarity : float
        α₀ in (0, 1], whatever the metric.
    """
    given = checked_settings(
        {"dim": dim, "similarity": similarity, "metric": metric, "seal_at": seal_at}
    )
    with tempfile.TemporaryDirectory(prefix="memvec-") as folder:
        store = Store(Path(folder) / "rows.mv", given, read_only=False, scratch=True)
        with Collection(store, background=False, verify=False) as collection:
            yield collection


def given_settings(
    similarity: float | None, radius: float | None, metric: Metric | None, **others: Any
) -> dict[str, Any]:
    """Return the settings that are given to create or open a collection with, checked."""
    if metric is None and radius is not None:
        metric = "euclidean"
    if similarity is not None or radius is not None:
        given_metric = checked_metric(metric or "cosine", "memvec.open")
        similarity = checked_level(given_metric, similarity, radius, 0.0, "memvec.open")
    return checked_settings({"similarity": similarity, "metric": metric, **others})


def open_collection(
    path: str | os.PathLike[str],
    *,
    dim: int | None = None,
    similarity: float | None = None,
    radius: float | None = None,
    metric: Metric | None = None,
    dtype: RowType | None = None,
    miss_rate: float | None = None,
    guarantee: Guarantee | None = None,
    confidence: float | None = None,
    similarities: Sequence[float] | None = None,
    config: IndexConfig | None = None,
    seal_at: int | None = None,
    read_only: bool = False,
    verify: bool = True,
    online: Online = "scan",
    background: bool = True,
    device: str = "cpu",
) -> Collection:
    """Open a collection, or create one.

    Parameters
    ----------
    path : str or path
        Folder of a collection, or a new or empty folder.
    dim : int, optional
        Dimension of the vectors; needed to create a collection.
    similarity : float, optional
        α₀ in (0, 1], the cosine that it is designed for; 0.7 for a new one.
    radius : float, optional
        r in [0, √2), in place of `similarity` if the metric is "euclidean": r² = 2 − 2α₀.
    metric : {"cosine", "euclidean"}, optional
        What scores are; "cosine" for a new one. With "euclidean", scores are distances, the nearest
        come first, and rows must have norm 1.
    dtype : {"float32", "float16", "int8"}, optional
        Type that vectors are stored in; "float32" for a new one. Scores are those of the stored
        vectors, and of queries rounded in the same way.
    miss_rate : float, optional
        ε in (0, 1), the share of matches that searches may miss; 0.01 for a new one.
    guarantee : {"expected", "model", "high_probability", "exact"}, optional
        Level of searches that name none, as far as the evidence supports it; "expected" for a new
        one.
    confidence : float, optional
        1 − δ in (0, 1), for "high_probability"; 0.95 for a new one.
    similarities : sequence of float, optional
        Similarities at which "high_probability" may be asked for, all promised at once;
        `similarity` for a new one. Each one makes searches a little slower.
    config : IndexConfig, optional
        How segments are built.
    seal_at : int, optional
        Number of waiting vectors at which they become a segment; 10,000 for a new one. 0 leaves it
        to :meth:`Collection.seal`.
    read_only : bool, default False
        Open for reading. Any number of readers may work beside one writer. They see the state that
        was committed when they opened the collection or called :meth:`Collection.refresh`.
    verify : bool, default True
        Compare the checksums of a segment with its files when it is first searched.
    online : {"scan", "units"}
        How waiting vectors are searched: one by one, or, as the paper does for streams, by memory
        vectors of random units that are updated with each vector, at level "model".
    background : bool, default True
        Seal in a thread while vectors are added; False seals within the call that makes sealing
        due.
    device : str
        Device that segments are searched on: "cpu", "cuda" for the first GPU, "cuda:1" for the
        second, and so on. A GPU needs balanced codes: a collection created with a device gets them;
        one created without a device needs ``IndexConfig(codes="balanced")``. The folder is the
        same, and can later be opened on the CPU. Each segment is copied to the card by the first
        search after it was opened or sealed. The CPU searches waiting vectors and builds segments.

    Raises
    ------
    IndexNotFoundError
        If there is no collection, and no `dim` to create one with.
    LockedError
        If it is open for writing elsewhere.
    CorruptIndexError, UnknownVersionError
        If it is damaged, is not a collection, or has a format version that this release does not
        know.
    InvalidValueError
        If it was created with other settings than those given.
    StorageError
        If the disk is full or an operation on it fails.
    DeviceError, MissingExtraError
        If there is no such GPU, no driver, or no package for it.

    Examples
    --------
    >>> import tempfile, memvec
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with memvec.open(folder + "/two.mv", dim=2) as collection:
    ...         collection.add([[1.0, 0.0], [0.0, 1.0]], metadata=[{"year": 2020}, None])
    ...     with memvec.open(folder + "/two.mv", read_only=True) as collection:
    ...         collection.get([0])[0].metadata
    [0, 1]
    {'year': 2020}
    """
    if not isinstance(path, str | os.PathLike):
        raise checks.bad_type("path", "memvec.open", "a path", repr(path))
    checks.choice(online, "online", "memvec.open", get_args(Online))
    device = check_device(device, "memvec.open")
    given = given_settings(
        similarity,
        radius,
        metric,
        dim=dim,
        dtype=dtype,
        miss_rate=miss_rate,
        guarantee=guarantee,
        confidence=confidence,
        similarities=similarities,
        config=config,
        seal_at=seal_at,
    )
    store = Store(Path(path), given, read_only=read_only, device=device)
    return Collection(store, verify=verify, online=online, background=background)
