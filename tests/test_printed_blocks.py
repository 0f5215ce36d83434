import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.parametrize(
    ("page", "n_printing"),
    [
        ("errors.md", 1),
        ("evaluation.md", 4),
        ("files.md", 1),
        ("get-started.md", 4),
        ("memory-vectors.md", 1),
    ],
)
def test_blocks_print_what_the_page_shows(page, n_printing, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (DOCS / page).read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```(?:\n```text\n(.*?)```)?", text, re.S)
    assert sum(bool(expected) for _, expected in blocks) == n_printing
    names = {}
    for code, expected in blocks:
        with redirect_stdout(StringIO()) as printed:
            exec(code, names)
        lines = [line.rstrip() for line in printed.getvalue().splitlines()]
        assert not expected or lines == expected.splitlines()
