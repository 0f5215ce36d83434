"""How Sphinx builds the pages: ``make docs``."""

import sys
from importlib import metadata
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from command_reference import reference

project = "memvec"
author = "The memvec authors"
release = metadata.version("memvec")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
smartquotes = False  # they would make dashes of the flags of commands
# Links to files of the repository that are no pages; words in types that several classes have as a
# property, such as "dim". tests/test_docs.py checks the links.
suppress_warnings = ["myst.xref_missing", "ref.python"]

html_theme = "furo"
html_title = "memvec"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False

autodoc_default_options = {"members": True, "show-inheritance": False}
autodoc_member_order = "bysource"
# What the documented rooms import of the extras, which the site is built without.
autodoc_mock_imports = [
    *("datasets", "fastapi", "httpx", "joblib", "langchain_core", "pyarrow", "pydantic"),
    *("pydantic_core", "sklearn", "starlette", "uvicorn"),
]
autodoc_typehints = "none"  # docstrings give the types, as numpydoc has it
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_param = False  # types are words, not links
napoleon_use_rtype = False


def add_commands(app: Any, name: str, source: list[str]) -> None:
    """Append the sections of all commands to their page when it is read."""
    if name == "commands":
        source[0] += f"\n{reference()}\n"


def with_dashes(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Set dashes between names and texts, where napoleon writes two hyphens."""
    lines[:] = [line.replace(" -- ", " – ", 1) for line in lines]


def outdated_pages(app: Any, *_: Any) -> list[str]:
    """Return the pages to read again at each build: commands change without their page."""
    return ["commands"]


def setup(app: Any) -> None:
    """Connect what the pages are made of besides their files."""
    app.connect("source-read", add_commands)
    app.connect("autodoc-process-docstring", with_dashes, priority=900)  # after napoleon
    app.connect("env-get-outdated", outdated_pages)
