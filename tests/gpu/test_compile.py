"""Every kernel compiles without a card; what is compiled is kept."""

import io
import os
import sys

import pytest

from memvec import gpu
from memvec.errors import DeviceError, InvalidValueError, MissingExtraError
from memvec.gpu import _compile, _packages
from memvec.kernels import cuda_source

pytest.importorskip("cuda.core", reason="NVRTC is not installed: pip install --group dev")
pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC is not installed: pip install --group dev")

# sm_75 stands for cards that have neither kind of product; it runs by popcounts.
COMPILED = [
    *(("join_wgmma", "sm_90a", length) for length in (256, 384, 768, 1024, 2048)),
    *(
        (name, arch, 768)
        for name in ("join_mma", "encode", "members", "scan")
        for arch in ("sm_80", "sm_90a")
    ),
    *(("join_popcount", arch, 2048) for arch in ("sm_75", "sm_80", "sm_90a")),
    *(
        (name, arch, 256)
        for name in ("above", "combine", "nearest", "scores", "solve", "store", "weights")
        for arch in ("sm_80", "sm_90a")
    ),
    *(("join_mma", "sm_80", 2048), ("encode", "sm_75", 2048), ("scan", "sm_80", 1536)),
]


@pytest.mark.parametrize(("name", "arch", "length"), COMPILED)
def test_kernel_compiles(name, arch, length):
    code = gpu.compile_kernel(name, arch, gpu.kernel_macros(name, length))
    assert code.startswith(b"\x7fELF")


@pytest.mark.parametrize("length", [256, 1024, 1536, 2048])
def test_compiler_does_not_serialise_products_of_warpgroups(length):
    core = pytest.importorskip("cuda.core")
    macros = gpu.kernel_macros("join_wgmma", length)
    options = core.ProgramOptions(
        arch="sm_90a",
        std="c++17",
        define_macro=[(name, str(value)) for name, value in macros.items()],
        ptxas_options=["-v"],
    )
    log = io.StringIO()
    core.Program(cuda_source("join_wgmma"), "c++", options).compile("cubin", logs=log)
    assert "registers" in log.getvalue()
    assert "serialized" not in log.getvalue()


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        *(("scores", {"STORED": stored}) for stored in (0, 1)),
        *(
            ("store", {"GIVEN": given, "STORED": stored})
            for given, stored in ((0, 0), (1, 1), (3, 2))
        ),
        *(("members", {"FIRST": 3}), ("solve", {"SIZE": 1}), ("solve", {"SIZE": 32})),
        ("encode", {"CODED": 70}),
    ],
)
def test_kernel_compiles_for_other_sizes(name, sizes):
    code = gpu.compile_kernel(name, "sm_90a", gpu.kernel_macros(name, 320, **sizes))
    assert code.startswith(b"\x7fELF")


def test_all_kernels_are_compiled_for_both_architectures():
    for name in gpu.KERNELS:
        archs = {arch for kernel, arch, _ in COMPILED if kernel == name}
        assert archs >= ({"sm_90a"} if name == "join_wgmma" else {"sm_80", "sm_90a"})


def test_sources_include_nothing():
    assert not any("#include" in cuda_source(name) for name in gpu.KERNELS)


@pytest.fixture
def cache_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MEMVEC_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "cuda"


@pytest.fixture
def compilations(monkeypatch):
    """What is compiled, in order."""
    done = []

    def compile_kernel(*given):
        done.append(given)
        return b"code of " + repr(given).encode()

    monkeypatch.setattr(_compile, "compile_kernel", compile_kernel)
    return done


def test_kernel_is_compiled_once_for_each_architecture_and_size(cache_folder, compilations):
    for given in [("scan", "sm_80", {"BITS": 512})] * 2 + [("scan", "sm_90a", {"BITS": 512})]:
        assert _compile.kept_kernel(*given) == b"code of " + repr(given).encode()
    _compile.kept_kernel("scan", "sm_80", {"BITS": 768})
    assert len(compilations) == 3
    assert len(list(cache_folder.iterdir())) == 3


def test_changed_source_is_compiled_again(cache_folder, compilations, monkeypatch):
    _compile.kept_kernel("scores", "sm_80", {})
    monkeypatch.setattr(_compile, "cuda_source", lambda name: "changed")
    _compile.kept_kernel("scores", "sm_80", {})
    assert len(compilations) == 2


def test_damaged_kernel_is_compiled_again(cache_folder, compilations):
    code = _compile.kept_kernel("scores", "sm_80", {})
    [path] = cache_folder.iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    assert _compile.kept_kernel("scores", "sm_80", {}) == code
    assert _compile.kept_kernel("scores", "sm_80", {}) == code
    assert len(compilations) == 2


def test_kernels_used_last_are_kept(cache_folder, compilations, monkeypatch):
    monkeypatch.setattr(_compile, "_N_KEPT", 2)
    for number, bits in enumerate((256, 512, 768)):
        _compile.kept_kernel("scan", "sm_80", {"BITS": bits})
        for path in cache_folder.iterdir():
            if path.stat().st_mtime > 1e9:
                os.utime(path, (number, number))
    _compile.kept_kernel("scan", "sm_80", {"BITS": 256})
    assert [given[2]["BITS"] for given in compilations] == [256, 512, 768, 256]
    assert len(list(cache_folder.iterdir())) == 2


def test_kernel_is_compiled_each_time_where_nothing_can_be_kept(
    tmp_path, compilations, monkeypatch
):
    (tmp_path / "file").touch()
    monkeypatch.setenv("MEMVEC_CACHE_DIR", str(tmp_path / "file"))
    for _ in range(2):
        _compile.kept_kernel("scores", "sm_80", {})
    assert len(compilations) == 2


def test_compiler_that_does_not_know_an_architecture_is_named():
    expected = (
        r"NVRTC \d+\.\d+ cannot compile 'scores' for sm_10; it knows sm_\d+ to sm_\d+\. .*gpu12"
    )
    with pytest.raises(DeviceError, match=expected):
        gpu.compile_kernel("scores", "sm_10", {})


def test_kernel_that_does_not_compile_says_why():
    expected = r"cannot compile 'members' for sm_80: (.|\n)*FIRST"
    with pytest.raises(DeviceError, match=expected):
        gpu.compile_kernel("members", "sm_80", {"BITS": 512})


@pytest.mark.parametrize(
    ("kernel", "length", "expected"),
    [
        ("join", 256, "one of 'above', 'combine', 'encode'"),
        ("scan", 62, "an integer >= 64"),
        ("scan", 257, "an even number in \\[64, 2048\\]"),
        ("scan", 2050, "an even number in \\[64, 2048\\]. Got 2050"),
    ],
)
def test_sizes_without_a_kernel_are_refused(kernel, length, expected):
    with pytest.raises(InvalidValueError, match=expected):
        gpu.kernel_macros(kernel, length)


@pytest.mark.parametrize(
    ("version", "extra"), [(12040, "gpu12"), (13000, "gpu13"), (None, "gpu13")]
)
def test_missing_package_names_the_extra_for_the_driver(monkeypatch, version, extra):
    monkeypatch.setattr(_packages, "driver_version", lambda: version)
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(MissingExtraError, match=rf"'cupy'.*memvec\[{extra}\]"):
        _packages.cupy()
