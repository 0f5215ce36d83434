"""What a server is told: where its collections are, who may come, how much each may ask."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass, field
from pathlib import Path

from memvec import checks
from memvec.errors import InvalidValueError

_WHERE = "ServerSettings"


@dataclass(frozen=True)
class Limits:
    """How much is taken and given at once; beyond them a request is refused, and the process lives.

    Attributes
    ----------
    body_bytes : int
        Of one request: 40,000 vectors of 384 dimensions as raw float32. It is held in memory.
    bodies_bytes : int
        Of all requests together: JSON takes up to sixteen times as much once it is read.
    vectors : int
        Queries, or items that are added, in one request: so many are searched in about a second.
    k : int
        Nearest items of one query: rows are filled up, so that k × queries is what is sent.
    hits : int
        Matches of one answer that is not streamed: each takes about 60 bytes of JSON.
    full_hits : int
        Matches of one answer that come with their metadata: each takes a kilobyte or more.
    numbers : int
        Of all vectors in one answer: each takes 50 bytes of memory until it is sent.
    answers_bytes : int
        Of all answers that wait for slow clients, streams apart: they are held in memory.
    page_items : int
        Items of one page.
    running : int
        Requests that are worked on at a time: more than cores only take memory from each other.
    queued : int
        Requests that wait for those; whoever comes then gets 429.
    streams : int
        Answers that are being streamed: each holds a block and a state of its collection.
    seconds : float
        For the answer to one request; longer work is a job. Changes that were begun are awaited.
    body_seconds : float
        For a client to send a body: slow ones would hold connections for ever.
    head_seconds : float
        For a client to begin a request on a new connection, and to send its head.
    stall_seconds : float
        For a client to take a piece of a stream.
    jobs : int
        Jobs that run or wait. One runs at a time: a join uses all cores.
    kept_jobs : int
        Ended jobs whose results are kept on disk.
    job_pairs : int
        Pairs of one job: they are kept on disk, 60 bytes each.
    collections : int
        Open at a time: each holds files and caches.
    connections : int
        Open at a time, of each port: each is a file of the process.
    key_checks : int
        Unknown keys that are checked at a time: each check takes 16 MiB and 50 ms.
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


@dataclass(frozen=True)
class ServerSettings:
    """What a server is told.

    Attributes
    ----------
    folder : path
        Holds the collections, a folder each.
    host, port : str, int
        Where it listens. Another host than this machine needs keys.
    key_file : path or None
        The keys that ``memvec keys create`` made; without it nobody is asked for one.
    read_only : bool
        Refuse all changes.
    hosts : tuple of str
        Names by which clients may call the server, besides its own.
    origins : tuple of str
        Web pages of other servers that may use it (CORS); none by default.
    encoder : str or None
        What makes vectors of texts or photographs: ``images``, the path of an ONNX model, or
        ``module:function``.
    photos : path or None
        The page shows photographs of this folder: the metadata ``path`` of an item, or its id.
    limits : Limits
        How much each may ask.
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
        """The names by which clients may call the server, in small letters."""
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
