"""The rule of the rooms: they only look downwards, through doors, and numba stays in kernels.

Nobody touches what is private to another room: neither rooms nor benchmarks, examples and tests.
The tests of a room, ``tests/<room>/`` or ``tests/test_<room>.py``, may look inside that one.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "memvec"
PAPER = ROOT / "paper"

# Rooms of one tier do not import each other; a room may import any room of a lower tier.
TIERS = [
    {"errors", "lazy", "types"},
    {"cache", "checks", "display", "progress"},
    {"matches", "metric"},
    {"kernels", "theory", "storage"},
    {"constructions", "codes", "evaluation", "files"},
    {"assignment", "guarantee"},
    {"search"},
    {"index"},
    {"collection", "gpu"},
    {"client", "cluster", "images"},
    {"integrations", "server"},
    {"cli"},
    {"paper"},
]
TIER_OF = {room: tier for tier, rooms in enumerate(TIERS) for room in rooms}
PAPER_FILES = sorted(PAPER.rglob("*.py"))
FILES = [*sorted(PACKAGE.rglob("*.py")), *PAPER_FILES]
OUTSIDE = [
    path for name in ("benchmarks", "examples", "tests") for path in (ROOT / name).rglob("*.py")
]
EVERY_FILE = [*FILES, *sorted(OUTSIDE)]
OWN = {"memvec", "paper", "benchmarks"}
# Private by name only, of named tuples and of whatever a notebook shows.
PROTOCOLS = {"_asdict", "_fields", "_make", "_replace", "_repr_html_", "_repr_png_"}
# Private by name only: the Python manual describes the one, Numba's that of extensions the other.
DOCUMENTED = {"os._exit", "view._getvalue"}
# Calls that name what they replace.
NAMING = {"delattr", "getattr", "object", "patch", "setattr"}


def room_of(path: Path) -> str:
    """Return the room of a file; the paper, outside the package, is one that stands above all."""
    if path.is_relative_to(PAPER):
        return "paper"
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@cache
def nodes_of(text: str) -> list[ast.AST]:
    return list(ast.walk(ast.parse(text)))


def imported_modules(path: Path) -> set[str]:
    modules = set()
    for node in nodes_of(path.read_text(encoding="utf-8")):
        if isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            modules.add(node.module or "")
            modules.update(f"{node.module}.{alias.name}" for alias in node.names)
    return modules


def violations(path: Path, modules: set[str]) -> list[str]:
    room = room_of(path)
    found = []
    for module in sorted(modules):
        parts = module.split(".")
        if parts[0] == "numba" and room != "kernels":
            found.append(f"{room} imports numba")
        if parts[0] == "paper" and room != "paper":
            found.append(f"{room} imports paper, which is not below it")
        if parts[0] != "memvec" or len(parts) < 2 or parts[1] not in TIER_OF:
            continue
        other = parts[1]
        if other != room and TIER_OF[other] >= TIER_OF[room]:
            found.append(f"{room} imports {other}, which is not below it")
        if other != room and len(parts) > 2 and parts[2].startswith("_"):
            found.append(f"{room} goes through {module} instead of the door of {other}")
    return found


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


class Names(NamedTuple):
    """The private names that a room gives: to objects and classes, and to things of its modules."""

    of_objects: set[str]
    of_modules: set[str]


def private_names(text: str) -> Names:
    """Return the private names that a source gives."""
    names = Names(set(), set())
    for node in nodes_of(text):
        if isinstance(node, ast.Module):
            names.of_modules.update(filter(is_private, _names_given(node.body)))
        elif isinstance(node, ast.ClassDef):
            names.of_objects.update(filter(is_private, _names_given(node.body)))
        elif isinstance(node, ast.Attribute) and is_private(node.attr) and _is_set(node):
            names.of_objects.add(node.attr)
    return names


def _is_set(node: ast.Attribute) -> bool:
    """Tell whether an object gives itself an attribute, rather than reads what it may inherit."""
    own = isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}
    return own and isinstance(node.ctx, ast.Store)


def _names_given(lines: list[ast.stmt]) -> Iterator[str]:
    for line in lines:
        if isinstance(line, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield line.name
        elif isinstance(line, ast.Assign | ast.AnnAssign):
            stores = [node for node in ast.walk(line) if isinstance(node, ast.Name)]
            yield from (node.id for node in stores if isinstance(node.ctx, ast.Store))


def private_attributes(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield the private attributes that a source touches: whose, which, and in which line."""
    for node in nodes_of(text):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            yield ast.unparse(node.value), node.attr, node.lineno
        elif isinstance(node, ast.Call) and _called(node) in NAMING:
            yield from (
                (ast.unparse(node.args[0]), name, node.lineno)
                for name in _texts(node)
                if is_private(name)
            )


def named_modules(text: str) -> set[str]:
    """Return what a source names in a string to replace it, such as a function of a module."""
    calls = [node for node in nodes_of(text) if isinstance(node, ast.Call)]
    return {name for call in calls if _called(call) in NAMING for name in _texts(call)}


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)


def _texts(call: ast.Call) -> list[str]:
    return [
        argument.value
        for argument in call.args[:2]
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    ]


def private_modules(modules: set[str]) -> Iterator[tuple[str, str]]:
    """Yield the private modules and names among those that are imported, with their room."""
    for module in sorted(modules):
        package, *parts = module.split(".")
        room = parts.pop(0) if package == "memvec" and parts else package
        if package in OWN and any(map(is_private, [room, *parts])):
            yield room, module


def subject_of(path: Path) -> str:
    """Return the room that a file belongs to, or is a test of."""
    if path.is_relative_to(PACKAGE):
        return room_of(path)
    folder, *rest = path.relative_to(ROOT).parts
    return rest[0].removeprefix("test_").removesuffix(".py") if folder == "tests" else folder


@cache
def names_of_subject(subject: str) -> Names:
    """Return the private names of a room, of its modules and of its tests."""
    names = Names(set(), set())
    for path in EVERY_FILE:
        if subject_of(path) == subject:
            given = private_names(path.read_text(encoding="utf-8"))
            names.of_objects.update(given.of_objects)
            names.of_modules.update(given.of_modules, filter(is_private, [path.stem]))
    return names


def intrusions(subject: str, path: Path) -> list[str]:
    """Return what a file uses that is private to other rooms than its own."""
    text, imported = path.read_text(encoding="utf-8"), imported_modules(path)
    # Files outside the package are by themselves.
    in_a_room = subject in TIER_OF and subject != "paper"
    own = names_of_subject(subject) if in_a_room else private_names(text)
    modules = {module.split(".")[-1] for module in imported}
    used = imported | named_modules(text)
    found = [module for room, module in private_modules(used) if room != subject]
    for owner, name, line in private_attributes(text):
        known = own.of_objects | own.of_modules if owner in modules else own.of_objects
        if name not in known | PROTOCOLS and f"{owner}.{name}" not in DOCUMENTED:
            found.append(f"{owner}.{name} (line {line})")
    return found


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE if path.is_relative_to(PACKAGE) else ROOT).as_posix()


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_room_imports_only_from_below(path: Path) -> None:
    if path == PACKAGE / "__init__.py":
        return
    assert room_of(path) in TIER_OF, f"{path} belongs to no room of the table"
    assert violations(path, imported_modules(path)) == []


@pytest.mark.parametrize("subject", sorted({subject_of(path) for path in EVERY_FILE}))
def test_nothing_private_is_used_outside_its_room(subject: str) -> None:
    files = [path for path in EVERY_FILE if subject_of(path) == subject]
    found = {name_of(path): intrusions(subject, path) for path in files}
    assert {name: complaints for name, complaints in found.items() if complaints} == {}


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        ("index", "self._parts; index._parts; pair._replace(a=1); index.__len__; os._exit(0)"),
        ("collection", "from memvec.collection import _sealing\n_sealing._commit"),
        ("collection", "patch.setattr('memvec.collection._store.Store', None)"),
        ("cache", "from memvec.cache import _ENTRY_BYTES"),
        ("paper", "print('memvec.index._index')"),
    ],
)
def test_own_private_names_may_be_used(subject: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "source.py").write_text(text, encoding="utf-8")
    assert intrusions(subject, tmp_path / "source.py") == []


@pytest.mark.parametrize(
    ("subject", "text", "complaint"),
    [
        ("collection", "index._parts", "index._parts (line 1)"),
        ("benchmarks", "\na.b()._parts = 1", "a.b()._parts (line 2)"),
        ("benchmarks", "class A(Calibration): b = lambda self: self._c", "self._c (line 1)"),
        ("search", "collection._named(found)", "collection._named (line 1)"),
        ("index", "import memvec.kernels._scan", "memvec.kernels._scan"),
        ("index", "from memvec.search import _source", "memvec.search._source"),
        ("docs", "from memvec.cache import _ENTRY_BYTES", "memvec.cache._ENTRY_BYTES"),
        ("images", "from benchmarks.images import _rows", "benchmarks.images._rows"),
        ("index", "patch.setattr(Cache, '_shrink', None)", "Cache._shrink (line 1)"),
        ("cli", "patch('memvec.index._index.Index')", "memvec.index._index.Index"),
    ],
)
def test_private_names_of_others_are_seen(
    subject: str, text: str, complaint: str, tmp_path: Path
) -> None:
    (tmp_path / "source.py").write_text(text, encoding="utf-8")
    assert intrusions(subject, tmp_path / "source.py") == [complaint]


@pytest.mark.parametrize(
    ("room", "module", "complaint"),
    [
        ("kernels", "memvec.index", "kernels imports index, which is not below it"),
        ("assignment", "memvec.guarantee", "assignment imports guarantee, which is not below it"),
        ("index", "memvec.kernels._scan", "index goes through memvec.kernels._scan instead of"),
        ("theory", "numba", "theory imports numba"),
        ("cli", "paper.registry", "cli imports paper, which is not below it"),
    ],
)
def test_rule_catches_what_it_forbids(room: str, module: str, complaint: str) -> None:
    [found] = violations(PACKAGE / room / "_file.py", {module})
    assert found.startswith(complaint)


def test_rule_holds_for_the_paper() -> None:
    assert violations(PAPER / "fig01.py", {"memvec.index", "paper.table"}) == []
    [found] = violations(PAPER / "fig01.py", {"memvec.index._index"})
    assert found.startswith("paper goes through memvec.index._index instead of the door of index")
