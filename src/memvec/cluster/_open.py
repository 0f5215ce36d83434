"""Opening a sharded collection, or creating one."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial as bound
from pathlib import Path
from typing import Any

from memvec import checks
from memvec.checks import counted
from memvec.cluster._ray import require_ray
from memvec.cluster._root import (
    ROOT,
    Root,
    checked_shards,
    make_folder,
    not_found,
    place_of,
    read_root,
)
from memvec.collection import (
    Link,
    LocalLink,
    Settings,
    Shard,
    ShardedCollection,
    ShardedStore,
    given_settings,
    settle,
)
from memvec.errors import IndexNotFoundError, damaged
from memvec.guarantee import Guarantee
from memvec.index import IndexConfig
from memvec.metric import Metric
from memvec.storage import disk
from memvec.types import RowType

_WHERE = "memvec.cluster.open"


def open_cluster(
    path: str | os.PathLike[str],
    *,
    shards: int | None = None,
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
    background: bool = True,
    partial: bool = False,
    local: bool = False,
    cpus: float = 1,
) -> ShardedCollection:
    """Open a collection of several shards, or create one.

    Each shard is an ordinary collection in its own folder, ``shard-0000`` and so on, which
    :func:`memvec.open` also reads. A hash of its id determines the shard of an item
    (:func:`shard_of`).

    Parameters
    ----------
    path : str or path
        The folder of the shards, or a new or empty folder. With Ray, the driver and all nodes that
        shards may run on must reach it under this path.
    shards : int, optional
        Number of shards; needed to create a collection, and fixed from then on.
    dim, similarity, radius, metric, dtype, miss_rate, guarantee, confidence, similarities, config
        As in :func:`memvec.open`.
    seal_at, read_only, verify, background
        As in :func:`memvec.open`, for each shard.
    partial : bool, default False
        Return answers even if some shards do not answer. The certificate names these shards and
        promises nothing about their items. Counts, lengths and lists, which have no certificate,
        leave them out as well: `missing_shards` of the collection names them, and the logger
        "memvec" warns of each. By default, such a shard raises ShardError.
    local : bool, default False
        Open all shards in this process, without Ray. Answers are the same.
    cpus : float, default 1
        Number of CPUs that Ray reserves for each shard.

    Raises
    ------
    IndexNotFoundError
        If there is no sharded collection, and no `dim` and `shards` to create one with.
    ShardError
        If a shard cannot be opened.
    LockedError
        If a shard is open for writing elsewhere.
    MissingExtraError
        If Ray is not installed and `local` is False.

    Examples
    --------
    >>> import tempfile
    >>> from memvec import cluster
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with cluster.open(folder + "/two", shards=2, dim=2, local=True) as collection:
    ...         collection.add([[1.0, 0.0], [0.0, 1.0]], ids=["east", "north"])
    ...         collection.range_search([1.0, 0.1], 0.8).ids
    ['east', 'north']
    array(['east'], dtype=object)
    """
    folder = checks.path(path, "path", _WHERE).absolute()
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
    cpus = checks.real(cpus, "cpus", _WHERE, low=0, low_open=True)
    wanted = None if shards is None else checked_shards(shards, _WHERE)
    with disk.refusals(folder):
        root = _known(folder, wanted, given, read_only)
    if not local:
        require_ray(f"{_WHERE} without local=True")  # before anything is created
    with disk.refusals(folder):
        root = root or _created(folder, wanted, given)
    options = {"read_only": read_only, "verify": verify, "background": background}
    if local:
        links = _local_links(root, options)
    else:
        from memvec.cluster._ray_links import ray_links

        links = ray_links(root, options, cpus)
    return _opened(root, links, read_only=read_only, partial=partial)


def _known(folder: Path, wanted: int | None, given: dict[str, Any], read_only: bool) -> Root | None:
    """Return what a folder holds, checked; None where it is to be created."""
    root = read_root(folder)
    if root is None:
        if wanted is None or "dim" not in given or read_only:
            raise not_found(folder)
        return None
    if wanted not in (None, root.n_shards):
        expected = f"{root.n_shards}, as the collection was created with, or left out"
        raise checks.bad_value("shards", _WHERE, expected, wanted)
    settle(root.settings, given)
    return root


def _created(folder: Path, n_shards: int | None, given: dict[str, Any]) -> Root:
    """Make empty shards; the file that names them comes last."""
    assert n_shards is not None
    make_folder(folder, n_shards)
    root = Root.new(folder, n_shards, Settings(**given))
    for number in range(n_shards):
        shard = Shard(root.shard_folder(number), number, given)
        n_items = shard.stats().n_items
        shard.close()
        if n_items:
            reason = f"it holds {counted(n_items, 'item')} of a collection whose {ROOT} is gone"
            raise damaged(root.shard_folder(number), reason)
        root.claim(number)
    root.write()
    return root


def open_shard(root: Root, number: int, options: dict[str, Any]) -> Shard:
    """Open a shard that exists."""
    folder = root.shard_folder(number)
    if not folder.is_dir():
        raise IndexNotFoundError("its folder is missing")
    root.check_claim(number)
    shard = Shard(folder, number, {}, **options)
    if shard.settings != root.settings:
        shard.close()
        raise damaged(folder, "it was created with other settings than the other shards")
    return shard


def _local_links(root: Root, options: dict[str, Any]) -> list[Link]:
    return [
        LocalLink(number, root.shard_folder(number), bound(open_shard, root, number, options))
        for number in range(root.n_shards)
    ]


def _opened(
    root: Root, links: Sequence[Link], *, read_only: bool, partial: bool
) -> ShardedCollection:
    place: Callable[[int | str], int] = bound(place_of, n_shards=root.n_shards)
    store = ShardedStore(
        root.folder, links, root.settings, place, read_only=read_only, partial_answers=partial
    )
    try:
        store.refresh()
    except BaseException:
        store.close()
        raise
    return ShardedCollection(store)
