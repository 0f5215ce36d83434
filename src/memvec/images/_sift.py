"""Local descriptors: SIFT at the keypoints of a photograph, with the RootSIFT normalisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from memvec import checks
from memvec.errors import FileFormatError, MissingExtraError
from memvec.images._photo import Pixels
from memvec.types import ArrayLike, Float32Array

if TYPE_CHECKING:
    import types

SIFT_DIM = 128


@dataclass(frozen=True)
class SiftConfig:
    """How local descriptors are computed.

    Attributes
    ----------
    max_side : int
        Photographs with a longer side are first scaled down to this one.
    max_features : int
        Maximum number of keypoints; those with the highest contrast are kept.
    contrast : float
        OpenCV's ``contrastThreshold``: keypoints with less contrast are dropped.
    """

    max_side: int = 1024
    max_features: int = 2000
    contrast: float = 0.04

    def __post_init__(self) -> None:
        where = "SiftConfig"
        checks.integer(self.max_side, "max_side", where, minimum=16)
        checks.integer(self.max_features, "max_features", where)
        checks.real(self.contrast, "contrast", where, low=0.0)


def root_sift(descriptors: ArrayLike) -> Float32Array:
    """Return √(x/‖x‖₁) of each row: inner products become Hellinger kernels, rows have norm 1.

    (R. Arandjelović and A. Zisserman, "Three things everyone should know to improve object
    retrieval", CVPR 2012.) Rows of zeros, which flat patches give, are left out.

    Parameters
    ----------
    descriptors : array_like of shape (n, 128)
        SIFT histograms, entries ≥ 0.

    Examples
    --------
    >>> root_sift([[9, 16, 0], [0, 0, 0]])
    array([[0.6, 0.8, 0. ]], dtype=float32)
    """
    rows = checks.matrix(descriptors, "descriptors", "root_sift").astype(np.float64)
    sums = rows.sum(axis=1, keepdims=True)
    kept = sums[:, 0] > 0
    roots: Float32Array = np.sqrt(rows[kept] / sums[kept]).astype(np.float32)
    return roots


def local_descriptors(pixels: Pixels, config: SiftConfig | None = None) -> Float32Array:
    """Return the RootSIFT descriptors of a photograph, one per row, in the order of OpenCV.

    Parameters
    ----------
    pixels : ndarray of shape (height, width, 3)
        RGB, uint8.
    config : SiftConfig, optional

    Raises
    ------
    FileFormatError
        If there is no keypoint, as in a photograph of a single colour.

    Examples
    --------
    >>> noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    >>> local_descriptors(noise).shape[1]
    128
    """
    chosen = SiftConfig() if config is None else config
    cv2 = opencv()
    grey = cv2.cvtColor(scaled_down(pixels, chosen.max_side), cv2.COLOR_RGB2GRAY)
    sift = cv2.SIFT_create(nfeatures=chosen.max_features, contrastThreshold=chosen.contrast)
    _, found = sift.detectAndCompute(grey, None)
    rows = np.empty((0, SIFT_DIM), np.float32) if found is None else root_sift(found)
    if len(rows) == 0:
        raise FileFormatError("No keypoint was found in the photograph.")
    # OpenCV keeps all keypoints that tie with the last.
    return rows[: chosen.max_features]


def scaled_down(pixels: Pixels, max_side: int) -> Pixels:
    """Return the photograph with no side longer than `max_side`, averaging over areas."""
    height, width = pixels.shape[:2]
    factor = max_side / max(height, width)
    if factor >= 1:
        return pixels
    cv2 = opencv()
    size = (max(1, round(width * factor)), max(1, round(height * factor)))
    scaled: Pixels = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA)
    return scaled


def opencv() -> Any:
    """Return the module cv2, or say how to get it."""
    try:
        import cv2
    except ImportError:
        raise MissingExtraError("Local descriptors", "opencv-python-headless", "images") from None
    module: types.ModuleType = cv2
    return module
