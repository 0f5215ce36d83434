"""Doctests of an integration run where its ecosystem is installed: see `make test-extras`."""

from importlib.util import find_spec

ECOSYSTEMS = {"langchain": "langchain_core"}
collect_ignore = [
    f"src/memvec/integrations/{module}.py"
    for module, package in ECOSYSTEMS.items()
    if find_spec(package) is None
]
