"""The code in README and docs runs, and links lead somewhere."""

import re
import runpy
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

import memvec
from memvec.cli import main
from test_layers import TIERS

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# Their blocks need other ecosystems: tests/integrations/test_pages.py runs them.
EXTRA_PAGES = [ROOT / "docs" / name for name in ("integrations.md", "migration.md")]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def python_blocks(page):
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)


OWN_PAGES = [page for page in PAGES[1:] if page not in EXTRA_PAGES]


@pytest.mark.parametrize("page", OWN_PAGES, ids=lambda page: page.name)
def test_python_blocks_of_a_page_run_in_order(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # what they save is gone afterwards
    run_python(page)


def test_readme_works_from_top_to_bottom_in_one_folder(tmp_path, monkeypatch):
    page = PAGES[0]
    monkeypatch.chdir(tmp_path)
    run_python(page)
    [block] = re.findall(r"^```console\n(\$ python.*?)^```", page.read_text("utf-8"), re.M | re.S)
    lines = [line[2:] for line in block.splitlines() if line.startswith("$ ")]
    assert len(lines) >= 4
    for line in lines:
        command, *arguments = shlex.split(line.split(" > ")[0], comments=True)
        if command == "python":
            exec(arguments[1], {})
        else:
            result = CliRunner().invoke(main, arguments)
            assert result.exit_code == 0, result.output


def run_python(page):
    names = {}
    for block in python_blocks(page):
        code = re.sub(r"^>>> |^\.\.\. ", "", block, flags=re.M)
        if ">>>" in block:
            run_doctest(block, names)
        else:
            exec(compile(code, str(page), "exec"), names)


def test_certificate_in_the_readme_is_a_real_one(tmp_path, monkeypatch):
    page = ROOT / "README.md"
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(compile(python_blocks(page)[0], str(page), "exec"), names)
    assert f"```text\n{names['hits'].certificate}\n```" in page.read_text(encoding="utf-8")


def run_doctest(block, names):
    import doctest

    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    test = doctest.DocTestParser().get_doctest(block, names, "block", None, 0)
    assert doctest.DocTestRunner(optionflags=flags).run(test, clear_globs=False).failed == 0
    names.update(test.globs)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_relative_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def anchors(page):
    """Return the anchor of each heading, as the site and code forges make them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    titles = re.findall(r"^#+ (.+)$", text, re.M)
    named = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
    return named | set(re.findall(r'<a id="(.+?)">', text))


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_anchors_of_links_are_headings(page):
    links = re.findall(r"\]\(([^)#:]*\.md)?#([^)]+)\)", page.read_text(encoding="utf-8"))
    for target, anchor in links:
        found = anchors(page.parent / target if target else page)
        assert anchor in found or target.endswith("commands.md"), f"{page.name}: {target}#{anchor}"


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_code_files_that_a_page_names_exist(page):
    named = r"\b(?:tests|tools|examples|benchmarks|paper|src)/[\w/]+\.py\b"
    for path in re.findall(named, page.read_text(encoding="utf-8")):
        assert (ROOT / path).exists(), f"{page.name} names {path}"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_example_runs(example, capsys):
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) < 160


def verdicts(page):
    """Return the verdict of each item of the page of the paper, in its order."""
    text = page.read_text(encoding="utf-8").split("## All of it")[1].split("\n## ")[0]
    rows = re.findall(r"^\| \[(.+?)\]\(#(.+?)\) \| .+? \| (.+?) \|", text, re.M)
    return [
        (item if item.startswith(("Figure", "Table")) else name, word) for item, name, word in rows
    ]


def unfolded(page):
    """Return the words of each section of a page that a reader sees without unfolding anything."""
    text = re.sub(r"<details>.*?</details>", "", page.read_text(encoding="utf-8"), flags=re.S)
    return [section.split() for section in text.split("\n## ")]


def test_page_of_the_paper_is_read_in_ten_minutes():
    head, table, *items = unfolded(ROOT / "docs" / "paper.md")
    assert len(head) + len(table) + sum(map(len, items)) < 5000
    assert len(items) > 20
    # 150 words, and about 30 of its heading, its picture and its command.
    assert {words[1]: len(words) for words in items if len(words) > 180} == {}


def ranges(numbers):
    """Return numbers as text: 1–3, 5."""
    runs = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(f"{low}–{high}" if high > low else f"{low}" for low, high in runs)


def in_short(items):
    figures = [int(item.split()[1]) for item in items if item.startswith("Figure ")]
    words = [f"Figure{'s' if len(figures) > 1 else ''} {ranges(figures)}"] if figures else []
    return "; ".join([*words, *(item for item in items if not item.startswith("Figure "))])


def test_readme_has_the_verdicts_of_the_page():
    found = verdicts(ROOT / "docs" / "paper.md")
    assert len(found) > 20
    order = dict.fromkeys(("reproduced", "reproduced in part", "differs", *(w for _, w in found)))
    cells = {word: in_short([item for item, w in found if w == word]) for word in order}
    shown = {word: items for word, items in cells.items() if items}
    rows = (" | ".join(shown), "|".join("---" for _ in shown), " | ".join(shown.values()))
    table = "| {} |\n|{}|\n| {} |".format(*rows)
    assert table in (ROOT / "README.md").read_text(encoding="utf-8"), f"README needs\n{table}"


def test_every_page_is_in_the_contents():
    contents = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```{toctree}\n.*?\n\n(.*?)^```", contents, re.M | re.S)
    listed = [name for block in blocks for name in block.split()]
    assert sorted([*listed, "index"]) == sorted(page.stem for page in PAGES[1:])


def test_api_page_names_the_package():
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    left_out = {"MemvecError", "__version__"}  # memvec.errors has its own section
    assert {name for name in memvec.__all__ if f"memvec.{name}\n" not in page} == left_out


def test_architecture_has_the_rooms_and_tiers_of_the_rule():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    tiers = re.findall(r"^\| \d+ \| (`.+`) \|$", text, re.M)
    assert [set(re.findall(r"`(\w+)`", row)) for row in tiers] == TIERS
    rooms = text.split("## Rooms")[1].split("\n## ")[0]
    named = re.findall(r"^\| `(\w+)` \| .+ \|$", rooms, re.M)
    assert sorted(named) == sorted(room for tier in TIERS for room in tier)
