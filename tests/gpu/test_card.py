"""Cards are found, or what is missing is named; none is needed here."""

import sys
from types import ModuleType, SimpleNamespace

import pytest
from benchmarks.__main__ import main
from click.testing import CliRunner

from memvec import gpu
from memvec.errors import DeviceError, InvalidValueError, MissingExtraError
from memvec.gpu import _card, _join, _packages, _sources


def card_of(*capability):
    return gpu.Card(0, "made up", capability, 100)


@pytest.mark.parametrize(
    ("capability", "arch", "ways"),
    [
        ((9, 0), "sm_90a", ("wgmma", "mma", "popcount")),
        ((8, 0), "sm_80", ("mma", "popcount")),
        ((8, 9), "sm_89", ("mma", "popcount")),
        ((7, 5), "sm_75", ("popcount",)),
        ((10, 0), "sm_100", ("popcount",)),
    ],
)
def test_card_has_the_ways_of_its_capability(capability, arch, ways):
    assert (card_of(*capability).arch, card_of(*capability).ways) == (arch, ways)


@pytest.mark.parametrize("device", ["cpu", "cuda:", "cuda:-1", "cuda:x", 0])
def test_device_of_another_name_is_refused(device):
    with pytest.raises(InvalidValueError, match="'device' .* 'cuda' or 'cuda:<number>'"):
        gpu.find_card(device)


def test_missing_driver_is_named(monkeypatch):
    monkeypatch.setattr(_packages, "_DRIVER", "libcuda-that-is-not-there.so")
    assert _packages.driver_version() is None
    monkeypatch.setattr(_card, "driver_version", lambda: None)
    with pytest.raises(DeviceError, match="no driver of NVIDIA"):
        _card._card.__wrapped__(0)


class RefusedError(Exception):
    """What CuPy raises."""


@pytest.fixture
def libraries(monkeypatch):
    monkeypatch.setattr(_card, "check_libraries", lambda: None)


def made_up_cupy(count):
    """A CuPy whose runtime answers like this when it is asked for the number of cards."""
    runtime = SimpleNamespace(
        CUDARuntimeError=RefusedError,
        getDeviceCount=count,
        getDeviceProperties=lambda number: {
            "name": b"made up",
            "major": 8,
            "minor": 6,
            "multiProcessorCount": 28,
        },
    )
    return SimpleNamespace(cuda=SimpleNamespace(runtime=runtime))


def test_card_is_found_by_its_number(monkeypatch, libraries):
    monkeypatch.setattr(_card, "driver_version", lambda: 13000)
    monkeypatch.setattr(_card, "cupy", lambda: made_up_cupy(lambda: 2))
    assert _card._card.__wrapped__(1) == gpu.Card(1, "made up", (8, 6), 28)
    with pytest.raises(DeviceError, match="'cuda:2' is not there: .* 2 GPUs; the last is 'cuda:1'"):
        _card._card.__wrapped__(2)


def test_machine_without_cards_is_named(monkeypatch):
    monkeypatch.setattr(_card, "driver_version", lambda: 13000)
    monkeypatch.setattr(_card, "cupy", lambda: made_up_cupy(lambda: 0))
    with pytest.raises(DeviceError, match=r"'cuda:0' is not there: this machine has 0 GPUs\.$"):
        _card._card.__wrapped__(0)


@pytest.mark.parametrize(
    ("version", "expected"),
    [(12040, r"'nvidia-curand-cu12'.*\[gpu12\]"), (13000, r"'nvidia-curand'.*\[gpu13\]")],
)
def test_missing_library_of_cuda_is_named(monkeypatch, version, expected):
    """CuPy is installed by itself, and the machine has no CUDA toolkit."""
    libraries = ModuleType("cupy_backends.cuda.libs")

    def load(name):
        if name == "curand":
            raise ImportError("libcurand.so.10: cannot open shared object file")
        return name

    libraries.__getattr__ = load
    libraries.__path__ = []
    for name in ("cupy_backends", "cupy_backends.cuda"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "cupy_backends.cuda.libs", libraries)
    monkeypatch.setattr(_packages, "driver_version", lambda: version)
    monkeypatch.setattr(_card, "driver_version", lambda: version)
    monkeypatch.setattr(_card, "cupy", lambda: made_up_cupy(lambda: 1))
    with pytest.raises(MissingExtraError, match=expected):
        _card._card.__wrapped__(0)


def test_driver_that_does_not_answer_is_named(monkeypatch):
    def refuse():
        raise RefusedError("cudaErrorNoDevice: no CUDA-capable device is detected")

    monkeypatch.setattr(_card, "driver_version", lambda: 12000)
    monkeypatch.setattr(_card, "cupy", lambda: made_up_cupy(refuse))
    with pytest.raises(DeviceError, match=r"does not answer: .* device is detected\.$"):
        _card._card.__wrapped__(0)


def test_driver_too_old_for_cupy_names_the_extra_for_it(monkeypatch):
    def refuse():
        raise RefusedError("cudaErrorInsufficientDriver: CUDA driver version is insufficient")

    for module in (_card, _packages):
        monkeypatch.setattr(module, "driver_version", lambda: 12040)
    monkeypatch.setattr(_card, "cupy", lambda: made_up_cupy(refuse))
    with pytest.raises(DeviceError, match=r"It knows CUDA 12\.4: install 'memvec\[gpu12\]'"):
        _card._card.__wrapped__(0)


def test_card_with_too_little_shared_memory_is_named(monkeypatch):
    attribute = SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8)
    driver = SimpleNamespace(
        CUfunction_attribute=attribute, cuKernelSetAttribute=lambda *given: (1,)
    )
    monkeypatch.setattr(_card, "driver_bindings", lambda: driver)
    with pytest.raises(DeviceError, match="made up gives a block no 70000 bytes"):
        card_of(8, 6)._allow_shared(SimpleNamespace(handle=None), 70000)


@pytest.mark.parametrize("answer", [(7, 0, 0), None])
def test_compiler_that_does_not_start_is_named(monkeypatch, answer):
    def nvrtc_version():
        if answer is None:
            raise RuntimeError("no library")
        return answer

    module = SimpleNamespace(nvrtcVersion=nvrtc_version)
    monkeypatch.setattr(_packages, "_imported", lambda *given: module)
    expected = DeviceError if answer else MissingExtraError
    with pytest.raises(expected, match="error 7" if answer else "nvidia-cuda-nvrtc"):
        _packages.nvrtc_version()


def test_codes_take_a_multiple_of_256_bits():
    assert [gpu.code_bits(length) for length in (256, 258, 384, 2048)] == [256, 512, 512, 2048]


@pytest.mark.parametrize("bits", range(256, 2049, 256))
def test_blocks_of_warpgroups_fit_into_the_memory_of_a_processor(bits):
    shape = _sources.join_shape("join_wgmma", bits)
    tiles, groups = shape.macros["TILES"], shape.macros["WARPGROUPS"]
    limits, aside = 8 * (shape.columns + tiles), groups * 4 * 64 * 10 * 4
    assert shape.shared + limits + aside <= 227 * 1024
    assert limits + aside <= 48 * 1024  # what a kernel may name
    assert (tiles % 2, shape.columns, shape.threads) == (0, tiles * 128, groups * 128)
    assert tiles >= 4


@pytest.mark.parametrize("n_rows", [1, 1000, 10**6, 10**8])
@pytest.mark.parametrize("n_blocks", [1, 132, 10**5])
def test_rows_of_a_block_are_whole_tiles_of_every_way(n_rows, n_blocks):
    share = _join._rows_of_block(n_rows, n_blocks, 132)
    assert share % 128 == 0
    assert 2048 <= share <= 65536
    n_launched = n_blocks * -(-n_rows // share)
    assert n_launched < 2**31
    # Enough blocks for all processors, wherever there are enough rows.
    assert n_launched >= min(8 * 132, n_blocks * n_rows // 2048)


def test_benchmark_says_what_is_missing(monkeypatch):
    def find_card(device):
        raise DeviceError("no driver")

    monkeypatch.setattr(gpu, "find_card", find_card)
    outcome = CliRunner().invoke(main, ["gpu", "--rounds", "1"])
    assert isinstance(outcome.exception, DeviceError)
