"""Ray, imported at first use; never started where it runs already."""

from __future__ import annotations

import logging
import os
import re
import socket
import threading
from typing import Any

from memvec.errors import InvalidValueError, MissingExtraError

_LOG = logging.getLogger(__name__)
_STARTING = threading.Lock()
_ADDRESS = "RAY_ADDRESS"
_HOST_AND_PORT, _SECONDS = re.compile(r"(?:ray://)?([^:/]+):([0-9]+)"), 10.0


def require_ray(feature: str) -> Any:
    """Return Ray, connected: to what is initialised, to RAY_ADDRESS, or to a cluster started here.

    Parameters
    ----------
    feature : str
        What needs it, for the error where it is not installed.
    """
    try:
        import ray
    except ImportError:
        raise MissingExtraError(feature, "ray", "ray") from None
    with _STARTING:  # a second call of ray.init is an error
        if not ray.is_initialized():
            _connect(ray)
    return ray


def _connect(ray: Any) -> None:
    """Connect to the cluster that RAY_ADDRESS names; start one where it is not set."""
    address = os.environ.get(_ADDRESS)
    try:
        if address and (named := _HOST_AND_PORT.fullmatch(address)):
            # Ray itself would try for many minutes.
            socket.create_connection((named[1], int(named[2])), _SECONDS).close()
        ray.init()
    except (OSError, OverflowError, RuntimeError, ValueError) as error:
        if not address:
            raise
        text = f"The environment variable {_ADDRESS} must be the address of a running Ray cluster."
        raise InvalidValueError(f"{text} Got {address!r} instead ({error}).") from None


def warn_of_cpus(ray: Any, what: str, cpus: float, together: int = 1) -> None:
    """Log where Ray has fewer CPUs than are reserved: it would wait for them in silence.

    Parameters
    ----------
    what : str
        What reserves them, in the plural.
    cpus : float
        CPUs that each reserves, all on one node.
    together : int
        How many must run at the same time.
    """
    per_node = [node["Resources"].get("CPU", 0.0) for node in ray.nodes() if node["Alive"]]
    wanted = f"{what} reserve {cpus:g} CPUs each"
    if cpus > max(per_node, default=0.0):
        there = f"the largest node has {max(per_node, default=0.0):g}"
        _LOG.warning("%s; %s. They wait until a node has enough.", wanted, there)
    elif cpus * together > sum(per_node):
        there = f"the cluster has {sum(per_node):g}"
        _LOG.warning("%d %s; %s. They wait until it has enough.", together, wanted, there)


def memory_of_worker(ray: Any, cpus: int) -> int | None:
    """Return the bytes that a worker may use: its part of half of a node, of the node with least.

    Without it, each worker of a node would take half of the machine. None where Ray tells nothing.
    """
    found = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    parts = [
        node["memory"] / (node["CPU"] // cpus)
        for node in found
        if "memory" in node and node.get("CPU", 0.0) >= cpus
    ]
    return int(min(parts) / 2) if parts else None


def reason_of(error: Exception) -> str:
    """Return why an actor is gone in a line; where it was never made, what was raised instead."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [repr(error)]
    return f"{lines[0]} {lines[-1]}" if "creation task" in lines[0] else lines[0]
