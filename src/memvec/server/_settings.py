"""What a server is told: where its collections are, who may come, how much each may ask."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from memvec import checks
from memvec.errors import InvalidValueError

_WHERE = "ServerSettings"
# Without one of each, no request is ever answered; 0 of another turns off what it limits.
_NEEDED = ("running", "collections", "connections")


@dataclass(frozen=True)
class Limits:
    """The limits of a server. A request beyond them is refused.

    Attributes
    ----------
    body_bytes : int
        Size of the body of one request, which is held in memory: 40,000 vectors of 384 dimensions
        as raw float32.
    bodies_bytes : int
        Size of the bodies of all requests together. Parsed JSON takes up to sixteen times as much.
    vectors : int
        Queries or new items in one request. This many are searched in about a second.
    k : int
        Nearest items of one query. Rows are padded, so k × queries are sent.
    hits : int
        Matches of one answer that is not streamed. Each takes about 60 bytes of JSON.
    full_hits : int
        Matches of one answer with metadata. Each takes a kilobyte or more.
    numbers : int
        Entries of all vectors in one answer. Each takes 50 bytes of memory until it is sent.
    answers_bytes : int
        Size of all answers that wait for slow clients, without streams. They are held in memory.
    page_items : int
        Items of one page.
    running : int
        Requests that run at a time. More requests than cores gain nothing and take memory.
    queued : int
        Requests that wait for them. Further requests get 429.
    streams : int
        Answers that are streamed at a time. Each holds a block and a state of its collection.
    seconds : float
        Time for the answer to one request. Longer work is a job. Changes that have begun are
        finished.
    body_seconds : float
        Time for a client to send a body; slow clients would hold connections forever.
    head_seconds : float
        Time for a client to begin a request on a new connection, and to send its head.
    stall_seconds : float
        Time for a client to take a piece of a stream.
    jobs : int
        Jobs that run or wait. One runs at a time, because a join uses all cores.
    kept_jobs : int
        Finished jobs whose results are kept on disk.
    job_pairs : int
        Pairs of one job. They are kept on disk, 60 bytes each.
    collections : int
        Collections open at a time. Each holds files and caches.
    connections : int
        Connections open at a time, per port. Each is a file of the process.
    key_checks : int
        Unknown keys that are checked at a time. Each check takes 16 MiB and 50 ms.
    """

    body_bytes: int = 64 << 20
    bodies_bytes: int = 256 << 20
    vectors: int = 10_000
    k: int = 10_000
    hits: int = 1_000_000
    full_hits: int = 100_000
    numbers: int = 8_000_000
    answers_bytes: int = 512 << 20
    page_items: int = 1_000
    running: int = field(default_factory=lambda: max(2, os.cpu_count() or 2))
    queued: int = 256
    streams: int = 64
    seconds: float = 60.0
    body_seconds: float = 30.0
    head_seconds: float = 10.0
    stall_seconds: float = 30.0
    jobs: int = 16
    kept_jobs: int = 32
    job_pairs: int = 20_000_000
    collections: int = 256
    connections: int = 512
    key_checks: int = 4

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if one.type == "float":
                checks.real(value, one.name, "Limits", low=0.0, low_open=True)
            else:
                checks.integer(value, one.name, "Limits", minimum=int(one.name in _NEEDED))

    @classmethod
    def named(cls, given: Iterable[str]) -> Limits:
        """Return the limits with some of them given by name.

        Examples
        --------
        >>> Limits.named(["seconds=120", "vectors=500"]).seconds
        120.0
        """
        kinds = {one.name: float if one.type == "float" else int for one in fields(cls)}
        found: dict[str, Any] = {}
        for text in given:
            name, _, value = text.partition("=")
            if name not in kinds:
                expected = f"NAME=VALUE, where NAME is one of {', '.join(kinds)}"
                raise checks.bad_value("limit", "memvec serve", expected, repr(text))
            try:
                found[name] = kinds[name](value)
            except ValueError:
                expected = f"a number after {name}="
                raise checks.bad_value("limit", "memvec serve", expected, repr(text)) from None
        return cls(**found)


@dataclass(frozen=True)
class ServerSettings:
    """The settings of a server.

    Attributes
    ----------
    folder : path
        The folder of the collections, each of which is a folder.
    host, port : str, int
        The address to listen on. Any address but this machine's own requires keys.
    key_file : path or None
        The file of ``memvec keys create``. Without it, no key is required.
    read_only : bool
        Refuse all changes.
    hosts : tuple of str
        Further names that clients may call the server by.
    origins : tuple of str
        Origins of other web pages that may use the server (CORS); none by default.
    encoder : str or None
        Turns texts or photographs into vectors: ``images``, the path of an ONNX model, or
        ``module:function``.
    photos : path or None
        The folder of photographs that the page shows. The metadata ``path`` of an item, or its id,
        is the path in it.
    limits : Limits
        The limits.
    """

    folder: Path
    host: str = "127.0.0.1"
    port: int = 8765
    key_file: Path | None = None
    read_only: bool = False
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    encoder: str | None = None
    photos: Path | None = None
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        folder = checks.path(self.folder, "folder", _WHERE)
        if not folder.is_dir():
            raise checks.bad_value("folder", _WHERE, "a folder that exists", folder)
        object.__setattr__(self, "folder", folder.resolve())
        if self.key_file is None and not is_loopback(self.host):
            raise InvalidValueError(
                f"The address {self.host} can be reached from other machines, which needs keys: "
                "give a file of keys (--key-file), made by `memvec keys create`."
            )

    @property
    def allowed_hosts(self) -> frozenset[str]:
        """The names that clients may call the server by, in lower case."""
        own = {"localhost", "127.0.0.1", "[::1]", self.host, f"[{self.host}]"}
        return frozenset(name.lower() for name in (*own, *self.hosts))


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach an address.

    Examples
    --------
    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
