"""Cards: which there are, what each can do, and kernels loaded on them."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, TypeAlias, get_args

from memvec import checks
from memvec.errors import DeviceError, DeviceMemoryError
from memvec.gpu._compile import kept_kernel
from memvec.gpu._packages import (
    check_libraries,
    cuda_core,
    cuda_extra,
    cupy,
    driver_bindings,
    driver_version,
)

Way: TypeAlias = Literal["wgmma", "mma", "popcount"]
#: The ways of a join: 1-bit products of warpgroups, of warps, or popcounts. All answer the same.
WAYS: tuple[Way, ...] = get_args(Way)


class AtWork:
    """A context in which a card is current; what it has no memory for is named.

    Parameters
    ----------
    card : Card
    what : str
        What is done, such as ``"A search"``.
    """

    __slots__ = ("_card", "_device", "_what")

    def __init__(self, card: Card, what: str) -> None:
        self._card, self._what = card, what
        self._device = cupy().cuda.Device(card.number)

    def __enter__(self) -> None:
        self._device.__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: Any) -> None:
        self._device.__exit__(kind, error, trace)
        if kind is not None and issubclass(kind, cupy().cuda.memory.OutOfMemoryError):
            # Of one allocation, after CuPy gave back what it kept.
            needed = int(getattr(error, "_size", 0))
            raise DeviceMemoryError(self._what, needed, self._card.free_memory()) from None


@dataclass(frozen=True)
class Card:
    """A GPU, and the kernels that are loaded on it.

    Attributes
    ----------
    number : int
    name : str
    capability : tuple of int
        The compute capability, such as ``(9, 0)``.
    n_processors : int
        How many multiprocessors there are.
    """

    number: int
    name: str
    capability: tuple[int, int]
    n_processors: int
    _loaded: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)
    _lock: Any = field(default_factory=threading.Lock, repr=False, compare=False)

    @property
    def arch(self) -> str:
        """The architecture that kernels are compiled for."""
        major, minor = self.capability
        return f"sm_{major}{minor}{'a' if self.capability == (9, 0) else ''}"

    @property
    def ways(self) -> tuple[Way, ...]:
        """The ways of a join that the card has, the fastest first."""
        if self.capability == (9, 0):
            return WAYS
        return WAYS[1:] if self.capability[0] == 8 else WAYS[2:]

    def at_work(self, what: str) -> AtWork:
        """Return a context in which the card is current, and lack of memory is named."""
        return AtWork(self, what)

    def empty(self, what: str, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return an array on the card; an error says what there is no memory for."""
        with self.at_work(what):
            return cupy().empty(shape, dtype)

    def free_memory(self) -> int:
        """Return how many bytes of the card's memory are free."""
        xp = cupy()
        with xp.cuda.Device(self.number) as device:
            return int(device.mem_info[0] + xp.get_default_memory_pool().free_bytes())

    def launch(
        self,
        kernel: tuple[str, str, dict[str, int]],
        grid: int | tuple[int, int],
        threads: int,
        arguments: tuple[Any, ...],
        shared: int = 0,
    ) -> None:
        """Start a kernel on CuPy's current stream of this card.

        Parameters
        ----------
        kernel : tuple of str, str and dict
            The source, the function in it, and the sizes that it is compiled for.
        grid : int or tuple of int
            How many blocks, in one direction or two.
        threads : int
            Of a block.
        arguments : tuple
            Arrays of CuPy, NumPy scalars, or None for no array.
        shared : int
            Bytes of shared memory a block.
        """
        core: Any = cuda_core()
        given = [_passed(argument) for argument in arguments]
        with cupy().cuda.Device(self.number):
            function = self._function(kernel, shared)
            config = core.LaunchConfig(grid=grid, block=threads, shmem_size=shared)
            core.launch(_current_stream(), config, function, *given)

    def _function(self, kernel: tuple[str, str, dict[str, int]], shared: int) -> Any:
        source, name, macros = kernel
        key = source, name, tuple(sorted(macros.items()))
        with self._lock:  # two would be compiled twice
            if key not in self._loaded:
                core: Any = cuda_core()
                core.Device(self.number).set_current()
                code = kept_kernel(source, self.arch, macros)
                loaded = core.ObjectCode.from_cubin(code)
                function = loaded.get_kernel(name)
                if shared:  # more than 48 KiB, with what the kernel itself names
                    self._allow_shared(function, shared)
                self._loaded[key] = function
        return self._loaded[key]

    def _allow_shared(self, function: Any, shared: int) -> None:
        driver = driver_bindings()
        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        [error] = driver.cuKernelSetAttribute(attribute, shared, function.handle, self.number)
        if int(error):
            raise DeviceError(f"{self.name} gives a block no {shared} bytes of shared memory.")


def finish_work() -> None:
    """Wait for CuPy's current stream: every other stream may then read what was made."""
    cupy().cuda.get_current_stream().synchronize()


def _current_stream() -> Any:
    """Return CuPy's current stream, as cuda.core takes it."""
    # 1 names the stream that 0 stands for, whatever 0 means to the caller.
    return cuda_core().Stream.from_handle(cupy().cuda.get_current_stream().ptr or 1)


def _passed(argument: Any) -> Any:
    """Return an argument as cuda.core takes it: addresses of arrays as plain integers."""
    if argument is None:
        return 0
    return int(argument.data.ptr) if hasattr(argument, "__cuda_array_interface__") else argument


def find_card(device: str = "cuda") -> Card:
    """Return a card.

    Parameters
    ----------
    device : str
        ``"cuda"`` for the first, ``"cuda:1"`` for the second, and so on.

    Raises
    ------
    DeviceError
        There is no driver, or no such card.
    MissingExtraError
        CuPy or cuda.core is not installed.
    """
    match = re.fullmatch(r"cuda(?::(\d+))?", device) if isinstance(device, str) else None
    if match is None:
        raise checks.bad_value("device", "find_card", "'cuda' or 'cuda:<number>'", repr(device))
    return _card(int(match.group(1) or 0))


@cache
def _card(number: int) -> Card:
    version = driver_version()
    if version is None:
        raise DeviceError(
            "There is no driver of NVIDIA on this machine: its library (libcuda) is not found. "
            f"Install the driver of the GPU; 'memvec[{cuda_extra()}]' brings all else."
        )
    runtime = cupy().cuda.runtime
    try:
        n_cards = int(runtime.getDeviceCount())
    except runtime.CUDARuntimeError as error:
        raise DeviceError(_unanswered(str(error), version)) from None
    if number >= n_cards:
        counted = checks.counted(n_cards, "GPU")
        last = f"; the last is 'cuda:{n_cards - 1}'" if n_cards else ""
        raise DeviceError(f"'cuda:{number}' is not there: this machine has {counted}{last}.")
    check_libraries()
    found = runtime.getDeviceProperties(number)
    name = found["name"].decode() if isinstance(found["name"], bytes) else str(found["name"])
    return Card(number, name, (found["major"], found["minor"]), found["multiProcessorCount"])


def _unanswered(error: str, version: int) -> str:
    """Return why a driver does not answer, and what helps where it is too old for CuPy."""
    refused = f"The driver of the GPU does not answer: {error.rstrip('.')}."
    if "InsufficientDriver" not in error:
        return refused
    knows = f"{version // 1000}.{version % 1000 // 10}"
    return (
        f"{refused} It knows CUDA {knows}: install 'memvec[{cuda_extra()}]' in place of another "
        "CuPy, or a newer driver."
    )
