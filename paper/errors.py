"""What goes wrong with an experiment alone."""

from __future__ import annotations

from memvec.errors import MissingExtraError


class MissingPackageError(MissingExtraError):
    """An experiment needs a package of the dependency group ``paper`` that is not installed."""

    def __init__(self, feature: str, package: str) -> None:
        ImportError.__init__(
            self,
            f"{feature} needs the package '{package}', which is not installed. "
            "Install it with: pip install --group paper",
        )


__all__ = ["MissingPackageError"]
