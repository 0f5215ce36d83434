import gc
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numba
import pytest
from numba.core import event

import memvec
from memvec.kernels import _kept, score_units
from memvec.kernels._dispatcher import FunctionCache, _KeptCode, dispatcher
from memvec.kernels._kept import kept_folder, remove_old, sources_digest
from memvec.kernels._place import is_private, place

# Page faults of calls at many depths, some of which lie at the end of a piece of frames.
_DEEP = """
from memvec.kernels._dispatcher import _called, _with_room

def leaf(): return 0

def down(depth):
    if depth: return down(depth - 1)
    for _ in range(1000): leaf()

def everywhere():
    for depth in range(400): down(depth)

def faults(call):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    call(everywhere, (), {})
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(faults(_called), faults(_with_room))
"""

SCORE = """
import numpy as np
from numba.core import event

class Counted(event.Listener):
    n = 0
    def on_start(self, event): Counted.n += 1
    def on_end(self, event): pass

event.register("numba:compile", Counted())
from memvec.kernels import score_units
scores = np.empty(1, dtype=np.float32)
score_units(np.ones(3, dtype=np.float32), np.ones((1, 3), dtype=np.float32), scores)
print(Counted.n, scores[0])
"""


class Tree:
    """A copy of what kernels need, and a folder for what is compiled of it."""

    def __init__(self, folder):
        source = Path(memvec.__file__).parent
        self.package, self.cache = folder / "memvec", folder / "cache"
        self.package.mkdir()
        for path in source.glob("*.py"):
            shutil.copy(path, self.package)
        shutil.copytree(
            source / "kernels", self.package / "kernels", ignore=shutil.ignore_patterns("*pycache*")
        )

    def run(self):
        """Return how many functions were compiled, and a score."""
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.package.parent),
            "MEMVEC_CACHE_DIR": str(self.cache),
        }
        done = subprocess.run(
            [sys.executable, "-c", SCORE],
            capture_output=True,
            text=True,
            check=True,
            env=environment,
            cwd=self.package.parent,
        )
        compiled, score = done.stdout.split()
        return int(compiled), float(score)

    def kept(self, pattern):
        return [path for path in self.package.parent.rglob(pattern) if path.is_file()]


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A tree whose kernel was compiled once."""
    made = Tree(tmp_path_factory.mktemp("tree"))
    compiled, score = made.run()
    assert (compiled >= 2, score) == (True, 3.0)
    return made


def test_kernel_is_loaded_the_second_time_from_a_private_folder_outside_its_source(tree):
    assert tree.run() == (0, 3.0)
    assert len(tree.kept("*.nbc")) == 1
    for path in tree.kept("*.nb[ci]"):
        assert tree.cache in path.parents
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_damaged_code_is_compiled_again(tree):
    for path in tree.kept("*.nbi"):
        path.write_bytes(path.read_bytes()[:-20])
    compiled, score = tree.run()
    assert (compiled >= 2, score) == (True, 3.0)
    assert tree.run() == (0, 3.0)


def test_kernel_is_compiled_again_when_one_of_another_file_that_it_calls_has_changed(
    tmp_path, tree
):
    edited = Tree(tmp_path)
    shutil.copytree(tree.cache, edited.cache)
    scores = edited.package / "kernels" / "_scores.py"
    before = scores.read_text(encoding="utf-8")
    start = "total = no_product(left)"
    scores.write_text(before.replace(start, f"{start} + np.float32(1.0)"))
    compiled, score = edited.run()
    assert (compiled >= 2, score) == (True, 4.0)


def test_digest_covers_names_and_content_of_all_sources(tmp_path):
    (tmp_path / "a.py").write_text("1")
    first = sources_digest(tmp_path)
    assert sources_digest(tmp_path) == first
    (tmp_path / "a.py").write_text("2")
    second = sources_digest(tmp_path)
    (tmp_path / "a.py").rename(tmp_path / "b.py")
    assert len({first, second, sources_digest(tmp_path)}) == 3


@pytest.mark.parametrize(("name", "value"), [("BOUNDSCHECK", 1), ("OPT", 0)])
def test_code_compiled_by_other_settings_of_numba_is_kept_apart(monkeypatch, name, value):
    usual = sources_digest()
    monkeypatch.setattr(numba.config, name, value)
    assert sources_digest() != usual


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="rights of POSIX")
def test_folder_that_others_can_write_is_not_used(tmp_path, monkeypatch):
    assert is_private(tmp_path)
    for mode in (0o770, 0o707):
        tmp_path.chmod(mode)
        assert not is_private(tmp_path)
    monkeypatch.setenv("MEMVEC_CACHE_DIR", str(tmp_path))
    assert kept_folder.__wrapped__() is None
    tmp_path.chmod(0o700)
    assert kept_folder.__wrapped__() == tmp_path / sources_digest()


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="rights of POSIX")
def test_folder_of_somebody_else_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setenv("MEMVEC_CACHE_DIR", str(tmp_path))
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert not is_private(tmp_path)
    assert kept_folder.__wrapped__() is None


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="rights of POSIX")
def test_folder_that_others_can_replace_is_not_used(tmp_path):
    folder = tmp_path / "public" / "mine"
    folder.mkdir(parents=True, mode=0o700)
    folder.parent.chmod(0o1777)
    assert is_private(folder)  # nobody else can rename what lies in a sticky folder
    folder.parent.chmod(0o777)
    assert not is_private(folder)
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    assert not is_private(link)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="rights of POSIX")
def test_nothing_is_made_where_it_would_not_be_used(tmp_path, monkeypatch):
    public, link = tmp_path / "public", tmp_path / "link"
    public.mkdir()
    public.chmod(0o777)
    link.symlink_to(tmp_path)
    for folder in (public / "mine", link):
        monkeypatch.setenv("MEMVEC_CACHE_DIR", str(folder))
        assert kept_folder.__wrapped__() is None
    assert sorted(tmp_path.rglob("*")) == [link, public]


def test_processors_that_share_a_home_have_folders_of_their_own(tmp_path, monkeypatch):
    here = sources_digest(tmp_path)
    monkeypatch.setattr(_kept, "get_host_cpu_name", lambda: "another")
    assert sources_digest(tmp_path) != here
    monkeypatch.undo()
    monkeypatch.setattr(_kept, "get_host_cpu_features", lambda: "+other")
    assert sources_digest(tmp_path) != here


def test_no_folder_is_found_where_none_can_be_made(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("MEMVEC_CACHE_DIR", str(tmp_path / "file"))
    assert kept_folder.__wrapped__() is None


def test_place_is_what_users_set_before_what_the_system_has(monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    monkeypatch.delenv("MEMVEC_CACHE_DIR", raising=False)
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    assert place() == Path("/x/memvec")
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/n")
    assert place() == Path("/n/memvec")
    monkeypatch.setenv("MEMVEC_CACHE_DIR", "/m")
    assert place() == Path("/m")


@pytest.mark.parametrize(
    ("platform", "expected"),
    [
        ("linux", "/h/.cache/memvec"),
        ("darwin", "/h/Library/Caches/memvec"),
        ("win32", "/l/memvec/Cache"),
    ],
)
def test_place_of_a_system_is_that_for_caches(monkeypatch, platform, expected):
    for name in ("MEMVEC_CACHE_DIR", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/h")
    monkeypatch.setenv("LOCALAPPDATA", "/l")
    monkeypatch.setattr(sys, "platform", platform)
    assert place() == Path(expected)


def test_folders_used_long_ago_are_removed_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setattr(_kept, "_N_KEPT", 1)
    names = [f"{number:032x}" for number in range(5)]
    for age, name in enumerate(names):
        (tmp_path / name).mkdir()
        (tmp_path / name / "code.nbc").touch()
        used = 2e9 - 3600.0 * 20 * age
        os.utime(tmp_path / name, (used, used))
    (tmp_path / "mine").mkdir()
    os.utime(tmp_path / "mine", (0, 0))
    monkeypatch.setattr(_kept.time, "time", lambda: 2e9 + 1)
    remove_old(tmp_path)
    # The one in use, the one used before it, and nothing older than a day besides.
    assert {path.name for path in tmp_path.iterdir()} == {*names[:2], "mine"}


def test_code_of_other_types_is_not_taken(monkeypatch):
    other = SimpleNamespace(signature=SimpleNamespace(args=("other",)))
    monkeypatch.setattr(FunctionCache, "load_overload", lambda *given: other)
    assert _KeptCode(score_units.function).load_overload((), None) is None


def test_full_disk_stops_no_kernel(monkeypatch, caplog):
    def full(*given):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(FunctionCache, "save_overload", full)
    with caplog.at_level("INFO", logger="memvec"):
        _KeptCode(score_units.function).save_overload((), None)
    assert "No space left" in caplog.text


BUILD = {
    "calibrate_codes",
    "centre_queries",
    "encode_rows",
    "float32_slack",
    "nearest_of_groups",
    "rotate_rows",
    "score_pairs",
    "search_codes",
    "second_of_units",
    "solve_units",
    "sum_units",
    "try_units",
}
USED = """
import gc, memvec
from memvec.evaluation import load_sample
from memvec.kernels._compile import Kernel

def used():
    made = [each for each in gc.get_objects() if isinstance(each, Kernel) and each._dispatcher]
    assert all(len(each._dispatcher.overloads) == 1 for each in made)
    print(*sorted(each.__name__ for each in made))

vectors = load_sample().vectors[:3000]
index = memvec.Index.build(vectors)
used()
index.range_search(vectors[:20], similarity=0.7)
used()
"""


def test_build_and_first_search_need_these_kernels_for_one_signature_each():
    """What fewer ask for, such as an exact search, is compiled when it is asked for."""
    done = subprocess.run([sys.executable, "-c", USED], capture_output=True, text=True, check=True)
    built, searched = (set(line.split()) for line in done.stdout.splitlines())
    assert built == BUILD
    assert searched == BUILD  # the design step searches a sample


@pytest.mark.parametrize("collects", [True, False])
def test_compiling_leaves_the_collector_as_it_was(collects: bool) -> None:
    seen: list[bool] = []

    class WhileCompiling(event.Listener):
        def on_start(self, event: object) -> None:
            seen.append(gc.isenabled())

        def on_end(self, event: object) -> None: ...

    (gc.enable if collects else gc.disable)()
    try:
        with event.install_listener("numba:compile", WhileCompiling()):
            assert dispatcher(lambda value: value + 1, {"fastmath": False})(1) == 2
        assert seen == [False]
        assert gc.isenabled() is collects
    finally:
        gc.enable()


def test_compiling_maps_no_memory_call_by_call() -> None:
    """Python 3.11 to 3.13 unmap a piece of frames whenever the last call in it returns."""
    deep = "import resource, memvec\n" + _DEEP
    done = subprocess.run([sys.executable, "-c", deep], capture_output=True, text=True, check=True)
    plain, with_room = map(int, done.stdout.split())
    assert with_room < plain / 4  # 13 beside 3,206 page faults
