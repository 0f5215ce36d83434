"""NumPy under the name of CuPy: arrays, cards and streams that only look like those of a GPU.

All work is done at once, but what a GPU would refuse or get wrong is refused: work on arrays of
another card than the current one, and a stream that goes on while another one may be busy.
"""

import ctypes
import math
import threading
import types

import numpy as np

_HERE = threading.local()


def _stack(name, first):
    """The cards or the streams that this thread has entered."""
    if not hasattr(_HERE, name):
        setattr(_HERE, name, [first()])
    return getattr(_HERE, name)


def current_card():
    return _stack("cards", lambda: 0)[-1]


def current_stream():
    return _stack("streams", Stream)[-1]


def recorded(work):
    """Do something now, and again whenever a graph that is being drawn is launched."""
    stream = current_stream()
    stream.begin()
    if stream.drawn is not None:
        stream.drawn.append(work)
    work()


class ArrayOnCard(np.ndarray):
    """An array that only looks as if it lay on a card."""

    __cuda_array_interface__ = None
    card = 0

    def __array_finalize__(self, other):
        self.card = getattr(other, "card", current_card())

    def __array_ufunc__(self, ufunc, method, *given, out=None, **more):
        check_card(*given, *(out or ()))
        plain = [value.view(np.ndarray) if type(value) is ArrayOnCard else value for value in given]
        if out:
            more["out"] = tuple(value.view(np.ndarray) for value in out)
        found = getattr(ufunc, method)(*plain, **more)
        return out[0] if out else on_card(found)

    def __dlpack_device__(self):
        return 2, self.card

    @property
    def data(self):
        return types.SimpleNamespace(ptr=self.ctypes.data)

    @property
    def device(self):
        return Device(self.card)

    def get(self):
        current_stream().synchronize()
        return np.array(self)

    def fill(self, value):
        recorded(lambda: np.ndarray.fill(self, value))


def check_card(*values):
    """Raise unless arrays lie on the current card."""
    for value in values:
        if isinstance(value, ArrayOnCard) and value.ndim and value.card != current_card():
            raise RuntimeError(f"an array of card {value.card} on card {current_card()}")


def on_card(value):
    """An array of the current card; anything else as it is."""
    if not isinstance(value, np.ndarray):
        return value
    made = value.view(ArrayOnCard)
    made.card = current_card()
    return made


def on_current_card(value, *given, **more):
    """As CuPy's `asarray`: an array that lies on the current card is returned itself."""
    if isinstance(value, ArrayOnCard) and value.card != current_card():
        value = np.array(value)
    current_stream().begin()
    return on_card(np.asarray(value, *given, **more))


class Stream:
    """Work in order; the host knows that it is done only after it waited."""

    def __init__(self, non_blocking=False):
        self.ptr, self.drawn, self.busy = id(self) if non_blocking else 0, None, False

    def __enter__(self):
        _stack("streams", Stream).append(self)
        return self

    def __exit__(self, *given):
        _stack("streams", Stream).pop()

    def begin(self):
        """Start some work: what another stream of this thread has made must be there."""
        for other in set(_stack("streams", Stream)) - {self}:
            if other.busy:
                raise RuntimeError("a stream goes on while another one may be busy")
        self.busy = True

    def synchronize(self):
        self.busy = False

    def begin_capture(self):
        self.drawn = []

    def end_capture(self):
        work, self.drawn = self.drawn, None

        def launch(stream):
            stream.begin()
            for again in work:
                again()

        return types.SimpleNamespace(launch=launch)


class Device:
    """A card that may be made the current one."""

    mem_info = (1 << 40, 1 << 40)

    def __init__(self, number=0):
        self.id = number

    def __enter__(self):
        _stack("cards", lambda: 0).append(self.id)
        return self

    def __exit__(self, *given):
        _stack("cards", lambda: 0).pop()

    def synchronize(self):
        return None


def copy(to, of, n_bytes, kind, stream):
    assert stream == current_stream().ptr
    recorded(lambda: ctypes.memmove(to, of, n_bytes))


class OutOfMemoryError(MemoryError):
    """What CuPy raises where a card has no room."""

    def __init__(self, size):
        super().__init__(f"Out of memory allocating {size:,} bytes")
        self._size = size


class NumpyCupy(types.ModuleType):
    """NumPy under the name of CuPy; arrays that it makes are `ArrayOnCard`."""

    largest = 1 << 40  # bytes of an array that there is room for

    def __init__(self):
        super().__init__("cupy")
        self.ndarray, self.asarray = ArrayOnCard, on_current_card
        self.cuda = types.SimpleNamespace(
            Device=Device,
            Stream=Stream,
            alloc_pinned_memory=bytearray,
            get_current_stream=current_stream,
            runtime=types.SimpleNamespace(memcpyAsync=copy),
            memory=types.SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
        )

    def get_default_memory_pool(self):
        return types.SimpleNamespace(free_bytes=lambda: 0, free_all_blocks=lambda: None)

    def empty(self, shape, dtype=np.float64):
        size = math.prod(np.atleast_1d(shape).tolist()) * np.dtype(dtype).itemsize
        if size > self.largest:
            raise OutOfMemoryError(size)
        return on_card(np.empty(shape, dtype))

    def from_dlpack(self, array):
        with Device(array.__dlpack_device__()[1]):
            return on_card(np.asarray(array.__dlpack__(stream=1)))

    def __getattr__(self, name):
        found = getattr(np, name)
        if not callable(found) or isinstance(found, type):
            return found

        def called(*given, **more):
            check_card(*given)
            current_stream().begin()
            return on_card(found(*given, **more))

        return called
