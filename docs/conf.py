"""How Sphinx builds the pages: ``make docs``."""

import inspect
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from command_reference import reference
from docutils import nodes

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

autodoc_default_options = {"members": True}
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


def restore_properties(
    app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]
) -> None:
    """Undo what napoleon makes of properties: the text before a colon would be their type."""
    if what == "property":
        lines[:] = [*inspect.cleandoc(thing.__doc__ or "").splitlines(), ""]


def set_dashes(app: Any, doctree: nodes.document) -> None:
    """Set dashes between names and texts, where fields have two hyphens."""
    for text in list(doctree.findall(nodes.Text)):
        if text.startswith((" -- ", ") -- ")) and isinstance(
            text.parent, (nodes.paragraph, nodes.inline)
        ):
            text.parent.replace(text, nodes.Text(text.replace(" -- ", " – ", 1)))


def without_constructor(
    app: Any, what: str, name: str, thing: Any, options: Any, arguments: str, returned: str
) -> tuple[str, str] | None:
    """Leave out the constructor of a class that users make otherwise, as its docstring says."""
    made = what == "class" and re.search(r"[Mm]ade by (:\w+:)?`[^`]", thing.__doc__ or "")
    return ("", "") if made else None


def outdated_pages(app: Any, *_: Any) -> list[str]:
    """Return the pages to read again at each build: commands change without their page."""
    return ["commands"]


def setup(app: Any) -> None:
    """Connect what the pages are made of besides their files."""
    app.connect("source-read", add_commands)
    app.connect("autodoc-process-docstring", restore_properties, priority=900)  # after napoleon
    app.connect("doctree-read", set_dashes)
    app.connect("autodoc-process-signature", without_constructor)
    app.connect("env-get-outdated", outdated_pages)
