import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "evaluation.md"


def test_blocks_print_what_the_page_shows():
    blocks = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", PAGE.read_text("utf-8"), re.S)
    assert len(blocks) == 5
    names = {}
    for code, expected in blocks:
        with redirect_stdout(StringIO()) as printed:
            exec(code, names)
        lines = [line.rstrip() for line in printed.getvalue().splitlines()]
        assert lines == expected.splitlines()
