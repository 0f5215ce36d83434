"""How Sphinx builds the pages: ``make docs``."""

from importlib import metadata

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
autodoc_typehints = "none"  # docstrings give the types, as numpydoc has it
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_param = False  # types are words, not links
napoleon_use_rtype = False
