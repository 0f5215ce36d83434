"""Ray, imported at first use; never started where it runs already."""

from __future__ import annotations

from typing import Any

from memvec.errors import MissingExtraError


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
    if not ray.is_initialized():
        ray.init()  # takes the address from RAY_ADDRESS
    return ray
