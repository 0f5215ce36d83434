"""Settings for every test: which doctests of integrations can run, and how asynchronous ones do."""

from importlib.util import find_spec

import pytest

# The packages that modules of integrations need; `make test-extras` has them all.
ECOSYSTEMS = {"datasets": "datasets", "langchain": "langchain_core", "mcp": "mcp"}
collect_ignore = [
    f"src/memvec/integrations/{module}.py"
    for module, package in ECOSYSTEMS.items()
    if find_spec(package) is None
]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Know the settings of pytest-asyncio where it is not installed."""
    if find_spec("pytest_asyncio") is None:
        for name in ("asyncio_mode", "asyncio_default_fixture_loop_scope"):
            parser.addini(name, "a setting of pytest-asyncio")
