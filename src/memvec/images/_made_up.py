"""Photographs made up where there are no real ones: dead leaves, discs covering discs.

Discs whose radii follow a power law cover each other at edges, corners and blobs of all sizes, as
things in front of things do (A. B. Lee, D. Mumford and J. Huang, "Occlusion models for natural
images", IJCV 2001), so that there are keypoints to find.
"""

from __future__ import annotations

import numpy as np

from memvec import checks
from memvec.errors import MissingExtraError
from memvec.images._photo import Pixels

_SMALLEST_RADIUS = 4.0
# How far a camera moves, in pixels, and how much nearer it comes, when something is seen again.
_SHIFT = 6.0
_ZOOM = 0.08
# Standard deviation of the noise of a pixel, of 255.
_NOISE = 4.0


def made_up_scene(
    seed: int, *, height: int = 120, width: int = 160, n_discs: int | None = None
) -> Pixels:
    """Draw discs at random places, of random sizes and colours, later ones over earlier ones.

    Parameters
    ----------
    seed : int
        Seed of the scene.
    height, width : int
        Its size in pixels.
    n_discs : int, optional
        Number of discs; by default 250 for 120 × 160 pixels, and in proportion.

    Returns
    -------
    ndarray of shape (height, width, 3)
        RGB, uint8.

    Examples
    --------
    >>> made_up_scene(0, height=48, width=64).shape
    (48, 64, 3)
    """
    where = "made_up_scene"
    height = checks.integer(height, "height", where)
    width = checks.integer(width, "width", where)
    chosen = max(1, height * width * 250 // (120 * 160)) if n_discs is None else n_discs
    try:
        from PIL import Image, ImageDraw
    except ImportError:
        raise MissingExtraError("Making up photographs", "pillow", "images") from None
    rng = checks.generator(seed, where)
    image = Image.new("RGB", (width, height))
    draw = ImageDraw.Draw(image)
    for _ in range(checks.integer(chosen, "n_discs", where)):
        x, y = rng.uniform(0, width), rng.uniform(0, height)
        radius = _SMALLEST_RADIUS / np.sqrt(rng.uniform(0.01, 1))
        red, green, blue = rng.integers(0, 256, 3).tolist()
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=(red, green, blue))
    return np.asarray(image).copy()


def made_up_view(
    scene: Pixels,
    seed: int,
    *,
    left: float = 0.0,
    height: int = 100,
    width: int = 130,
    light: float = 1.0,
) -> Pixels:
    """Draw a view of a part of a scene, with noise; each seed moves the camera slightly.

    Parameters
    ----------
    scene : ndarray of shape (scene_height, scene_width, 3)
        At least 12 pixels higher and wider than the photograph.
    seed : int
        Seed of the place of the camera, and of the noise.
    left : float
        The left edge of the view in the scene.
    height, width : int
        The size of the photograph.
    light : float
        Factor of all colours; below 1, the view is darker.

    Examples
    --------
    >>> made_up_view(made_up_scene(0), seed=1, height=48, width=64, light=0.5).shape
    (48, 64, 3)
    """
    from PIL import Image

    rng = checks.generator(seed, "made_up_view")
    zoom = 1 - rng.uniform(0, _ZOOM)
    x = min(left + rng.uniform(0, 2 * _SHIFT), scene.shape[1] - width)
    y = min(rng.uniform(0, 2 * _SHIFT), scene.shape[0] - height)
    seen = Image.fromarray(scene).resize(
        (width, height), Image.Resampling.BICUBIC, box=(x, y, x + zoom * width, y + zoom * height)
    )
    noisy = light * np.asarray(seen, dtype=np.float64) + rng.normal(0, _NOISE, (height, width, 3))
    return np.clip(np.rint(noisy), 0, 255).astype(np.uint8)
