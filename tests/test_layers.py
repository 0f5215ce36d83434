"""The import rule: rooms only look downwards, through doors, and numba stays in kernels."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "memvec"
PAPER = ROOT / "paper"

# Rooms of one tier do not import each other; a room may import any room of a lower tier.
TIERS = [
    {"errors", "lazy", "types"},
    {"cache", "checks", "progress"},
    {"matches"},
    {"kernels", "theory", "storage"},
    {"constructions", "codes", "evaluation", "files"},
    {"assignment", "guarantee"},
    {"search"},
    {"index"},
    {"collection"},
    {"images"},
    {"cli"},
    {"paper"},
]
TIER_OF = {room: tier for tier, rooms in enumerate(TIERS) for room in rooms}
PAPER_FILES = sorted(PAPER.rglob("*.py"))
FILES = [*sorted(PACKAGE.rglob("*.py")), *PAPER_FILES]


def room_of(path: Path) -> str:
    """Return the room of a file; the paper, outside the package, is one that stands above all."""
    if path.is_relative_to(PAPER):
        return "paper"
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_modules(path: Path) -> set[str]:
    modules = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
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


def private_attributes(text: str) -> list[str]:
    """Return the private attributes that a source touches and that are not its own.

    Its own are those that one of its classes has: others of the same class may be compared by them.
    """
    nodes = list(ast.walk(ast.parse(text)))
    touched = [
        (ast.unparse(node.value), node.attr, node.lineno)
        for node in nodes
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and node.attr[-2:] != "__"
    ]
    own = {attribute for owner, attribute, _ in touched if owner in {"self", "cls"}}
    return [f"{owner}.{name} (line {line})" for owner, name, line in touched if name not in own]


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE if path.is_relative_to(PACKAGE) else ROOT).as_posix()


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_room_imports_only_from_below(path: Path) -> None:
    if path == PACKAGE / "__init__.py":
        return
    assert room_of(path) in TIER_OF, f"{path} belongs to no room of the table"
    assert violations(path, imported_modules(path)) == []


@pytest.mark.parametrize("path", PAPER_FILES, ids=name_of)
def test_paper_touches_no_private_attribute(path: Path) -> None:
    assert private_attributes(path.read_text(encoding="utf-8")) == []


def test_private_attributes_of_others_are_seen() -> None:
    text = "self._a; other._a; cls._b; index.__len__; index._parts; a.b()._c = 1"
    assert sorted(private_attributes(text)) == ["a.b()._c (line 1)", "index._parts (line 1)"]


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
