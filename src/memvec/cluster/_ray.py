"""Ray, imported at first use; never started where it runs already."""

from __future__ import annotations

import logging
import threading
from typing import Any

from memvec.errors import MissingExtraError

_LOG = logging.getLogger(__name__)
_STARTING = threading.Lock()


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
            ray.init()  # takes the address from RAY_ADDRESS
    return ray


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
