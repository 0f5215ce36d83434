import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.parametrize(("page", "n_blocks"), [("evaluation.md", 4), ("files.md", 1)])
def test_blocks_print_what_the_page_shows(page, n_blocks):
    text = (DOCS / page).read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", text, re.S)
    assert len(blocks) == n_blocks
    names = {}
    for code, expected in blocks:
        with redirect_stdout(StringIO()) as printed:
            exec(code, names)
        lines = [line.rstrip() for line in printed.getvalue().splitlines()]
        assert lines == expected.splitlines()
