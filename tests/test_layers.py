"""The import rule: rooms only look downwards, through doors, and numba stays in kernels."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "memvec"

# Rooms of one tier do not import each other; a room may import any room of a lower tier.
TIERS = [
    {"errors", "types"},
    {"cache", "checks", "progress"},
    {"kernels", "theory", "storage"},
    {"constructions", "codes", "evaluation"},
    {"assignment", "guarantee"},
    {"index"},
    {"collection"},
    {"images", "experiments"},
    {"cli"},
]
TIER_OF = {room: tier for tier, rooms in enumerate(TIERS) for room in rooms}
FILES = sorted(PACKAGE.rglob("*.py"))


def room_of(path: Path) -> str:
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
        if parts[0] != "memvec" or len(parts) < 2 or parts[1] not in TIER_OF:
            continue
        other = parts[1]
        if other != room and TIER_OF[other] >= TIER_OF[room]:
            found.append(f"{room} imports {other}, which is not below it")
        if other != room and len(parts) > 2 and parts[2].startswith("_"):
            found.append(f"{room} goes through {module} instead of the door of {other}")
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_room_imports_only_from_below(path: Path) -> None:
    if path == PACKAGE / "__init__.py":
        return
    assert room_of(path) in TIER_OF, f"{path} belongs to no room of the table"
    assert violations(path, imported_modules(path)) == []


@pytest.mark.parametrize(
    ("room", "module", "complaint"),
    [
        ("kernels", "memvec.index", "kernels imports index, which is not below it"),
        ("assignment", "memvec.guarantee", "assignment imports guarantee, which is not below it"),
        ("index", "memvec.kernels._scan", "index goes through memvec.kernels._scan instead of"),
        ("theory", "numba", "theory imports numba"),
    ],
)
def test_rule_catches_what_it_forbids(room: str, module: str, complaint: str) -> None:
    [found] = violations(PACKAGE / room / "_file.py", {module})
    assert found.startswith(complaint)
