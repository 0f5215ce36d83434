"""What an ONNX model wants to be shown: a small file beside it, TOML or JSON."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from memvec import checks
from memvec.errors import FileFormatError

Layout = Literal["NCHW", "NHWC"]
Channels = Literal["RGB", "BGR"]
Fit = Literal["crop", "stretch", "pad"]
Interpolation = Literal["nearest", "bilinear", "bicubic", "area"]
Pooling = Literal["none", "mean", "max", "gem"]

_CHOICES: dict[str, tuple[str, ...]] = {
    "layout": ("NCHW", "NHWC"),
    "channels": ("RGB", "BGR"),
    "fit": ("crop", "stretch", "pad"),
    "interpolation": ("nearest", "bilinear", "bicubic", "area"),
    "pooling": ("none", "mean", "max", "gem"),
}


@dataclass(frozen=True)
class OnnxConfig:
    """How a photograph becomes the input of a model, and the output becomes a vector.

    Values go from 0…255 to (value·scale − mean)/std, channel by channel.

    Attributes
    ----------
    model : str
        The file of the model; a relative path starts at the folder of the configuration.
    size : tuple of int
        Height and width of the input.
    fit : {"crop", "stretch", "pad"}
        Scale the shorter side and cut out the middle, scale both sides, or scale the longer side
        and pad with black.
    crop_share : float
        With "crop": the side that is cut out, divided by the scaled side; 224/256 is usual.
    interpolation : {"bilinear", "nearest", "bicubic", "area"}
        How pixels are scaled.
    layout : {"NCHW", "NHWC"}
        Channels before or after height and width.
    channels : {"RGB", "BGR"}
        Their order.
    scale : float
        Factor of all values, applied first; 1/255 unless the model scales them itself.
    mean, std : tuple of float
        Of the three channels, after scaling.
    input, output : str
        Names in the model; empty for the first ones.
    pooling : {"none", "mean", "max", "gem"}
        How the positions of an output are pooled, if it has any: flattened ("none"), their mean,
        their maximum, or their generalised mean with `gem_power`.
    gem_power : float
        The exponent of "gem".
    """

    model: str
    size: tuple[int, int] = (224, 224)
    fit: Fit = "crop"
    crop_share: float = 1.0
    interpolation: Interpolation = "bilinear"
    layout: Layout = "NCHW"
    channels: Channels = "RGB"
    scale: float = 1 / 255
    mean: tuple[float, float, float] = (0.0, 0.0, 0.0)
    std: tuple[float, float, float] = (1.0, 1.0, 1.0)
    input: str = ""
    output: str = ""
    pooling: Pooling = "none"
    gem_power: float = 3.0

    def __post_init__(self) -> None:
        where = "OnnxConfig"
        for name in ("model", "input", "output"):
            value = getattr(self, name)
            if not isinstance(value, str):
                raise checks.bad_value(name, where, "a text", repr(value))
        for name, options in _CHOICES.items():
            checks.choice(getattr(self, name), name, where, options)
        checks.real(self.crop_share, "crop_share", where, low=0.0, high=1.0, low_open=True)
        checks.real(self.scale, "scale", where)
        checks.real(self.gem_power, "gem_power", where, low=0.0, low_open=True)
        self._keep("size", 2, lambda side: checks.integer(side, "size", where))
        self._keep("mean", 3, lambda value: checks.real(value, "mean", where))
        self._keep("std", 3, lambda value: checks.real(value, "std", where, low=0, low_open=True))

    def _keep(self, name: str, length: int, check: Any) -> None:
        """Store a checked tuple: files give lists."""
        value = getattr(self, name)
        if not isinstance(value, list | tuple) or len(value) != length:
            raise checks.bad_value(name, "OnnxConfig", f"a list of {length} numbers", repr(value))
        object.__setattr__(self, name, tuple(check(entry) for entry in value))

    def settings(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in vars(self).items()
        }


def read_onnx_config(path: str | Path) -> OnnxConfig:
    r"""Return the config in a file that ends in .toml or .json.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "net.toml")
    ...     _ = file.write_text('model = "net.onnx"\nsize = [32, 48]\npooling = "gem"')
    ...     config = read_onnx_config(file)
    >>> config.size, config.pooling
    ((32, 48), 'gem')
    """
    file = Path(path)
    content = file.read_bytes()
    try:
        text = content.decode("utf-8")
        values = tomllib.loads(text) if file.suffix.lower() == ".toml" else json.loads(text)
    except ValueError as error:
        raise FileFormatError(f"{path} is neither TOML nor JSON: {error}.") from None
    if not isinstance(values, dict) or "model" not in values:
        raise FileFormatError(f"{path} does not name a model.")
    unknown = sorted(set(values) - {field.name for field in fields(OnnxConfig)})
    if unknown:
        raise FileFormatError(f"{path} has an unknown setting, {unknown[0]!r}.")
    return OnnxConfig(**values)
