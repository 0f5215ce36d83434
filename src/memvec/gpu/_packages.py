"""CuPy and cuda.core, imported at first use; errors that say which extra or driver is missing."""

from __future__ import annotations

import ctypes
import importlib
import sys
from typing import Any

from memvec.errors import DeviceError, MissingExtraError

_FEATURE = "Work on a GPU"
_DRIVER = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
_EXTRAS = (12, 13)
# Libraries of CUDA that CuPy calls for products and for draws.
_LIBRARIES = ("cublas", "curand")


def cuda_core() -> Any:
    """Return the module ``cuda.core``."""
    return _imported("cuda.core", "cuda-core")


def cupy() -> Any:
    """Return the module ``cupy``."""
    return _imported("cupy", "cupy")


def check_libraries() -> None:
    """Raise unless CuPy finds the libraries of CUDA that it calls."""
    for name in _LIBRARIES:
        try:
            # As `from cupy_backends.cuda.libs import name`, which looks for the library.
            __import__("cupy_backends.cuda.libs", fromlist=[name])
        except ImportError as reason:
            extra = cuda_extra()
            package = f"nvidia-{name}{'-cu12' if extra == 'gpu12' else ''}"
            raise MissingExtraError(_FEATURE, package, extra) from reason


def driver_bindings() -> Any:
    """Return the module ``cuda.bindings.driver``."""
    return _imported("cuda.bindings.driver", "cuda-bindings")


def nvrtc_version() -> str:
    """Return the version of the compiler, such as ``"12.9"``."""
    nvrtc = _imported("cuda.bindings.nvrtc", "cuda-bindings")
    try:
        error, major, minor = nvrtc.nvrtcVersion()
    except Exception as reason:  # the library is looked for at the first call
        raise MissingExtraError(_FEATURE, "nvidia-cuda-nvrtc", cuda_extra()) from reason
    if int(error):
        raise DeviceError(f"NVRTC does not start: error {int(error)}.")
    return f"{major}.{minor}"


def compiled_archs() -> list[int]:
    """Return the architectures that the compiler knows, rising, such as 75 for sm_75."""
    nvrtc = _imported("cuda.bindings.nvrtc", "cuda-bindings")
    error, archs = nvrtc.nvrtcGetSupportedArchs()
    return [] if int(error) else sorted(archs)


def driver_version() -> int | None:
    """Return the newest CUDA that the driver knows, such as 13000; None without a driver."""
    try:
        library = ctypes.CDLL(_DRIVER)
        version = ctypes.c_int()
        failed = library.cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return None
    return None if failed else version.value


def _imported(module: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtraError(_FEATURE, package, cuda_extra()) from None


def cuda_extra() -> str:
    """Return the extra that goes with the driver."""
    version = driver_version()
    major = max(_EXTRAS) if version is None else version // 1000
    return f"gpu{min(max(major, min(_EXTRAS)), max(_EXTRAS))}"
