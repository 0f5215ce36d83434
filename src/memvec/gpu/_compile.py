"""Kernels compiled by NVRTC when they are first used, and kept by source and architecture."""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from memvec.errors import DeviceError
from memvec.gpu._packages import compiled_archs, cuda_core, nvrtc_version
from memvec.kernels import cuda_source, private_folder

# Compiled kernels that are kept: those used last.
_N_KEPT = 128
_DIGEST_BYTES = hashlib.sha256().digest_size


def compile_kernel(name: str, arch: str, macros: dict[str, int]) -> bytes:
    """Return the machine code of a kernel for an architecture; this needs no card.

    Parameters
    ----------
    name : str
        One of `KERNELS`.
    arch : str
        Such as ``"sm_80"``.
    macros : dict
        The sizes that the kernel is compiled for; see `kernel_macros`.
    """
    core: Any = cuda_core()
    options: dict[str, Any] = {"arch": arch, "std": "c++17"}
    if macros:
        options["define_macro"] = [(key, str(value)) for key, value in macros.items()]
    try:
        program = core.Program(cuda_source(name), "c++", core.ProgramOptions(**options))
        return bytes(program.compile("cubin").code)
    except Exception as error:  # whatever NVRTC is wrapped in
        refused = f"NVRTC {nvrtc_version()} cannot compile '{name}' for {arch}"
        known = compiled_archs()
        if not known or int("".join(filter(str.isdigit, arch))) in known:
            raise DeviceError(f"{refused}: {error}") from error
        raise DeviceError(
            f"{refused}; it knows sm_{known[0]} to sm_{known[-1]}. For an older GPU, install "
            "'memvec[gpu12]'; for a newer one, a newer package nvidia-cuda-nvrtc."
        ) from error


def kept_kernel(name: str, arch: str, macros: dict[str, int]) -> bytes:
    """Return the machine code of a kernel, from the user's cache folder where it is there."""
    folder = private_folder("cuda")
    if folder is None:
        return compile_kernel(name, arch, macros)
    parts = [cuda_source(name), arch, nvrtc_version(), repr(sorted(macros.items()))]
    path = folder / f"{hashlib.sha256(repr(parts).encode()).hexdigest()[:32]}.cubin"
    code = _read(path)
    if code is None:
        code = compile_kernel(name, arch, macros)
        with suppress(OSError):  # a full disk stops no kernel
            _write(path, code)
            _remove_old(folder)
    return code


def _read(path: Path) -> bytes | None:
    """Return what was kept; None where nothing was, or where it is damaged."""
    try:
        content = path.read_bytes()
        os.utime(path)
    except OSError:
        return None
    digest, code = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    return code if hashlib.sha256(code).digest() == digest else None


def _write(path: Path, code: bytes) -> None:
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(hashlib.sha256(code).digest() + code)
    os.replace(file.name, path)


def _remove_old(folder: Path) -> None:
    by_age = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime)
    for path in by_age[:-_N_KEPT]:
        path.unlink(missing_ok=True)
