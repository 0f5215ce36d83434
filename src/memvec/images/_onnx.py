"""Any ONNX image model as a descriptor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from memvec.errors import FileFormatError, MissingExtraError
from memvec.images._aggregate import finished
from memvec.images._onnx_config import OnnxConfig, read_onnx_config
from memvec.images._photo import Pixels
from memvec.images._sift import opencv
from memvec.types import Float32Array, FloatArray

# A photograph that shows the model nothing would divide by zero in the generalised mean.
_GEM_FLOOR = 1e-6


@dataclass(frozen=True, eq=False, repr=False)
class OnnxDescriptor:
    """The output of a model, scaled to norm 1.

    Attributes
    ----------
    content : bytes
        The file of the model. It is saved with the descriptor, so that a library is complete.
    config : OnnxConfig
        How a photograph becomes its input, and the output becomes a vector.
    """

    kind: ClassVar[str] = "onnx"

    content: bytes
    config: OnnxConfig

    @classmethod
    def read(cls, path: str | Path) -> OnnxDescriptor:
        """Return the descriptor that a config file (.toml or .json) describes."""
        config = read_onnx_config(path)
        content = (Path(path).parent / config.model).read_bytes()
        return cls(content, replace(config, model=Path(config.model).name))

    @cached_property
    def dim(self) -> int:
        """The dimension of the vectors: that of a grey photograph's."""
        return len(self._output(np.full((64, 64, 3), 128, dtype=np.uint8)))

    def describe(self, pixels: Pixels) -> Float32Array:
        """Return the vector of a photograph, RGB of shape (height, width, 3), of norm 1."""
        return finished(self._output(pixels), power=1.0)

    def arrays(self) -> dict[str, Any]:
        """Return the arrays to save."""
        return {"model": np.frombuffer(self.content, dtype=np.uint8)}

    def settings(self) -> dict[str, Any]:
        """Return the settings to save."""
        return self.config.settings()

    @classmethod
    def restored(cls, arrays: Mapping[str, Any], settings: Mapping[str, Any]) -> OnnxDescriptor:
        """Return the descriptor that `arrays` and `settings` came from."""
        return cls(arrays["model"].tobytes(), OnnxConfig(**settings))

    def _output(self, pixels: Pixels) -> FloatArray:
        session, names = self._session
        try:
            [output] = session.run([names[1]], {names[0]: model_input(pixels, self.config)})
        except Exception as error:  # the runtime's own exceptions share no base class but this
            raise FileFormatError(f"{self.config.model} refuses its input: {error}") from None
        return _pooled(np.asarray(output, dtype=np.float32), self.config)

    @cached_property
    def _session(self) -> tuple[Any, tuple[str, str]]:
        """Return the session and the names of its input and output."""
        try:
            import onnxruntime
        except ImportError:
            raise MissingExtraError("An ONNX model", "onnxruntime", "onnx") from None
        options = onnxruntime.SessionOptions()
        # Photographs are shared out over threads already; one each also fixes the order of sums.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        try:
            session = onnxruntime.InferenceSession(
                self.content, options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:
            raise FileFormatError(f"{self.config.model} is not an ONNX model: {error}") from None
        inputs = [entry.name for entry in session.get_inputs()]
        outputs = [entry.name for entry in session.get_outputs()]
        return session, (
            _named(self.config.input, inputs, "input", self.config.model),
            _named(self.config.output, outputs, "output", self.config.model),
        )

    def __repr__(self) -> str:
        return f"OnnxDescriptor({self.config.model}, dimension {self.dim})"


def model_input(pixels: Pixels, config: OnnxConfig) -> Float32Array:
    """Return a photograph as a model's input: one image, float32, in the config's layout."""
    fitted = _fitted(pixels, config).astype(np.float32)
    if config.channels == "BGR":
        fitted = fitted[:, :, ::-1]
    mean, std = (np.array(values, dtype=np.float32) for values in (config.mean, config.std))
    values = (fitted * np.float32(config.scale) - mean) / std
    if config.layout == "NCHW":
        values = values.transpose(2, 0, 1)
    return np.ascontiguousarray(values[np.newaxis], dtype=np.float32)


def _fitted(pixels: Pixels, config: OnnxConfig) -> Pixels:
    height, width = config.size
    if config.fit == "stretch":
        return _resized(pixels, height, width, config)
    rows, columns = pixels.shape[:2]
    if config.fit == "crop":
        factor = max(height / rows, width / columns) / config.crop_share
        scaled = _resized(
            pixels, max(height, round(rows * factor)), max(width, round(columns * factor)), config
        )
        top, left = (scaled.shape[0] - height) // 2, (scaled.shape[1] - width) // 2
        return scaled[top : top + height, left : left + width]
    factor = min(height / rows, width / columns)
    inner = (
        min(height, max(1, round(rows * factor))),
        min(width, max(1, round(columns * factor))),
    )
    canvas = np.zeros((height, width, 3), dtype=np.uint8)
    top, left = (height - inner[0]) // 2, (width - inner[1]) // 2
    canvas[top : top + inner[0], left : left + inner[1]] = _resized(pixels, *inner, config)
    return canvas


def _resized(pixels: Pixels, height: int, width: int, config: OnnxConfig) -> Pixels:
    cv2 = opencv()
    ways = {
        "nearest": cv2.INTER_NEAREST,
        "bilinear": cv2.INTER_LINEAR,
        "bicubic": cv2.INTER_CUBIC,
        "area": cv2.INTER_AREA,
    }
    resized: Pixels = cv2.resize(pixels, (width, height), interpolation=ways[config.interpolation])
    return resized


def _pooled(output: Float32Array, config: OnnxConfig) -> FloatArray:
    """Return the output of one image as a vector."""
    if output.shape[:1] != (1,):
        raise FileFormatError(
            f"{config.model} returns shape {output.shape} for one image instead of one row."
        )
    one = output[0]
    if config.pooling == "none" or one.ndim < 2:
        return np.asarray(one.ravel(), dtype=np.float32)
    # Channels stand first or last, as in the input; all other axes are positions.
    channels = one if config.layout == "NCHW" else np.moveaxis(one, -1, 0)
    flat = channels.reshape(len(channels), -1).astype(np.float64)
    if config.pooling == "max":
        return np.asarray(flat.max(axis=1), dtype=np.float64)
    power = 1.0 if config.pooling == "mean" else config.gem_power
    positive = flat if config.pooling == "mean" else np.maximum(flat, _GEM_FLOOR)
    return np.asarray((positive**power).mean(axis=1) ** (1 / power), dtype=np.float64)


def _named(asked: str, names: list[str], what: str, model: str) -> str:
    if not asked:
        return names[0]
    if asked not in names:
        raise FileFormatError(f"{model} has no {what} {asked!r}; it has {', '.join(names)}.")
    return asked
