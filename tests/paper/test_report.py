"""The page of all experiments: what it says, which command it prints, what it will not replace."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

from memvec.errors import InvalidValueError
from paper import (
    EXPERIMENTS,
    DataFolders,
    Experiment,
    Finding,
    Table,
    Verdict,
    check_page,
    drawing,
    run_experiment,
    write_report,
)
from paper.data_sets import photo_sets, words
from paper.protocols import PROTOCOLS

CURVES = ("data", "variant", "ratio", "quality", "baseline")
LABELS = {"mAP": "mAP", "4-recall@4": "4-recall@4", "found": "share of matches found"}


def experiment(name="one", *, findings=(), rows=((1, 0.5), (2, float("inf"))), reads=(), **others):
    columns = CURVES if len(rows[0]) == 5 else ("x", "y")
    table = Table("Title", columns, tuple(rows))
    tested = findings or (Finding("y grows", True, "0.5 to inf"),)
    settings = {scale: {} for scale in ("smoke", "small", "paper")}

    def compute(run):
        assert all(run.data.find(file) is not None or not run.data.folders for file in reads)
        return table

    return Experiment(
        name,
        "Figure 0",
        "It grows.",
        settings,
        compute,
        lambda table: Verdict(tuple(tested), "A note.", "a reason"),
        **others,
    )


def curves(*names, variants=("sum", "pinv")):
    return [(name, which, x, x, 1.0) for name in names for which in variants for x in (0.2, 0.6)]


@pytest.fixture
def page(tmp_path):
    """Run some experiments and return the text of their page."""

    def write(*shown, run=None, data=None, scale="small", out="out"):
        for one in shown if run is None else run:
            run_experiment(one, scale, tmp_path / out, data=data)
        write_report({one.name: one for one in shown}, tmp_path / out, tmp_path / "page.md")
        return (tmp_path / "page.md").read_text(encoding="utf-8")

    return write


@pytest.fixture
def embeddings(tmp_path):
    (tmp_path / "data" / "wordnet-minilm").mkdir(parents=True)
    (tmp_path / "data" / "wordnet-minilm" / "vectors_int8.npy").touch()
    return DataFolders((tmp_path / "data",))


def test_report_begins_with_one_table_of_all(page):
    failed = (Finding("y grows", False, "0.5 to inf"), Finding("x grows", True, "1 to 2"))
    one, two, three = experiment("one"), experiment("two", findings=failed), experiment("three")
    text = page(one, two, three, run=(one, two))
    summary = text.split("## All of it")[1].split("\n<a id")[0]
    row = "| [Figure 0](#{}) | It grows. | {} |"
    assert row.format("one", "reproduced | 1 claim holds") in summary
    assert row.format("two", "reproduced in part | 1 of 2 claims holds; a reason") in summary
    assert row.format("three", "not run | ") in summary
    assert "- Y grows: **does not hold** (0.5 to ∞)." not in summary
    assert "- y grows: **does not hold** (0.5 to ∞)." in text.split("## Figure 0: two")[1]


def test_report_groups_a_claim_over_data_sets(page):
    both = tuple(
        Finding("it grows", holds, f"{holds:d} units", data=name, main=True)
        for name, holds in (("Holidays", True), ("UKB", False))
    )
    text = page(experiment(findings=both))
    shown, folded = text.split("<details>")
    assert "- It grows: **holds on 1 of 2 sets** (not on UKB: 0 units)." in shown
    assert (
        "- It grows:\n  - Holidays: holds. 1 units.\n  - UKB: **does not hold**. 0 units.\n"
        in folded
    )


def test_report_tells_what_cannot_be_tested(page):
    collapsed = Finding("it grows", False, "one unit holds 90 %", tested=False)
    text = page(experiment(findings=(collapsed,)))
    assert "| could not be tested | 1 claim cannot be tested; a reason |" in text
    assert "- It grows: **cannot be tested**.\n" in text
    assert "- It grows: **cannot be tested**. One unit holds 90 %." in text


def test_report_marks_what_is_beside(page):
    beside = Finding("x grows", True, "2", of_paper=False)
    text = page(experiment(findings=(Finding("y grows", True, "1", main=True), beside)))
    assert "\nBeside the paper's claims, not counted:\n\n- x grows: holds. 2.\n" in text
    assert "x grows" not in text.split("<details>")[0]


def test_report_calls_a_check_of_the_paper_checked(page):
    text = page(experiment(reproduction=False))
    assert "| It grows. | checked |" in text
    assert "**Checked**: 1 claim holds." in text


def test_report_folds_protocol_tables_and_notes(page):
    name = "fig01-cost-random"
    text = page(experiment(name, show_table=True))
    shown, folded = text.split("<details>")
    assert f'<a id="{name}"></a>\n\n## Figure 0: {name}\n\nThe paper: It grows.\n' in shown
    assert "| d | 1000 | 1000 |" in folded
    assert "Tolerance here: costs within 2 % of the lines" in folded
    assert "| 1 | 0.5 |\n| 2 | ∞ |" in folded
    assert "\nA note.\n" in folded


def test_every_experiment_has_a_protocol_with_a_claim_of_about_ten_words():
    assert PROTOCOLS.keys() == EXPERIMENTS.keys()
    assert all(len(each.headline.split()) <= 11 for each in PROTOCOLS.values())
    assert all(each.quote and each.tolerance for each in PROTOCOLS.values())


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("n = 10: close to it", "n = 10: close to it"),
        ("n* of pinv: 14", "n* of pinv: 14"),
        ("pinv: 0.1", "pinv: 0.1"),
        ("k-means: 0.1", "K-means: 0.1"),
        ("a random unit", "A random unit"),
        ("gaps -0.014, -2 and 1-2", "Gaps −0.014, −2 and 1-2"),
    ],
)
def test_report_writes_sentences(page, said, shown):
    assert f". {shown}." in page(experiment(findings=(Finding("c", True, said),)))


def test_command_names_data_where_the_result_rests_on_it(page, embeddings):
    text = page(experiment("real", reads=["wordnet-minilm"]), experiment("made"), data=embeddings)
    assert "`python -m paper real --scale small --data DIR`, " in text
    assert "`python -m paper made --scale small`, " in text


def test_command_describes_photographs_first(page, tmp_path):
    files = ("ukb56/phi1920.npy", "ukb56/gem1280.npy", "ukb56/made384.npy")
    (tmp_path / "ukb56").mkdir()
    for name in files:
        (tmp_path / name).touch()
    phi, deep, made = files
    text = page(
        experiment("phi", reads=[phi, deep]),
        experiment("deep", reads=[deep]),
        experiment("made", reads=[made]),
        data=DataFolders((tmp_path,)),
    )
    assert "`python -m paper phi --scale small --data DIR --describe`, " in text
    assert "`python -m paper deep --scale small --data DIR`, " in text
    assert "`python -m paper made --scale small`, " in text


def test_command_names_the_gpu_where_the_result_comes_from_one(page, tmp_path):
    run_experiment(experiment("one"), "small", tmp_path / "out", device="cuda")
    assert "`python -m paper one --scale small --device cuda`, " in page(experiment("one"), run=())


def test_page_on_data_sets_is_not_replaced_by_one_without(page, embeddings, tmp_path):
    shown = experiment("real", reads=["wordnet-minilm"]), experiment("theory")
    before = page(*shown, data=embeddings)
    with pytest.raises(InvalidValueError, match=r"page\.md shows results on data sets \(real\), "):
        page(*shown)
    assert (tmp_path / "page.md").read_text(encoding="utf-8") == before
    assert "--data DIR" in page(*shown, data=embeddings)


def test_check_page_lets_what_needs_no_data_pass(page, embeddings, tmp_path):
    page(experiment("real", reads=["wordnet-minilm"]), experiment("theory"), data=embeddings)
    check_page(tmp_path / "page.md", ["theory"])
    check_page(tmp_path / "elsewhere.md", ["real"])
    with pytest.raises(InvalidValueError, match="Name the folder of the data sets with --data, or"):
        check_page(tmp_path / "page.md", ["real"])


def test_result_kept_beside_the_page_is_shown_where_it_is_larger(page, tmp_path):
    run_experiment(experiment("one"), "paper", tmp_path / "kept")
    (tmp_path / "page").mkdir()
    (tmp_path / "kept" / "paper" / "one.json").rename(tmp_path / "page" / "one.json")
    command = "`python -m paper one --scale paper`"
    assert command in page(experiment("one"))
    assert command in page(experiment("one"), run=())


def test_result_kept_beside_the_page_gives_way_to_a_larger_one(page, tmp_path):
    run_experiment(experiment("one"), "smoke", tmp_path / "kept")
    (tmp_path / "page").mkdir()
    (tmp_path / "kept" / "smoke" / "one.json").rename(tmp_path / "page" / "one.json")
    assert "`python -m paper one --scale small`" in page(experiment("one"))
    assert "`python -m paper one --scale smoke`" in page(experiment("one"), run=[], out="none")


@pytest.mark.parametrize(
    ("held", "shown"),
    [
        ((True,), "holds on a."),
        ((False,), "**does not hold** on a (a is 0.5)."),
        ((True, True), "holds on 2 of 2 sets."),
        ((True, False), "**holds on 1 of 2 sets** (not on b: b is 0.5)."),
        ((False, False), "**holds on 0 of 2 sets**."),
        ((True, None), "holds on a, the one set where it can be tested."),
        ((False, None), "**does not hold** on a, the one set where it can be tested (a is 0.5)."),
        ((True, True, None), "holds on 2 of 2 sets; 1 cannot be tested."),
        ((False, True, None), "**holds on 1 of 2 sets** (not on a: a is 0.5); 1 cannot be tested."),
    ],
)
def test_report_names_the_sets_where_a_claim_fails_if_it_holds_on_others(page, held, shown):
    findings = [
        Finding("it grows", bool(good), f"{name} is 0.5", data=name, tested=good is not None)
        for name, good in zip("abc", held, strict=False)
    ]
    assert f"- It grows: {shown}" in page(experiment("one", findings=findings))


def test_page_of_the_paper_reads_in_ten_minutes():
    text = (Path(__file__).parents[2] / "docs" / "paper.md").read_text(encoding="utf-8")
    open_text = re.sub(r"<details>.*?</details>|!\[.*?\)", "", text, flags=re.DOTALL)
    assert len(open_text.split()) < 5000
    sections = re.split(r"\n<a id=.*></a>\n", open_text)[1:]
    assert len(sections) == len(EXPERIMENTS)
    assert max(len(section.split()) for section in sections) <= 150


def luminance(color):
    red, green, blue = (int(color[place : place + 2], 16) for place in (1, 3, 5))
    return 0.299 * red + 0.587 * green + 0.114 * blue  # of ITU-R BT.601


def test_colours_of_curves_fall_apart_in_grey():
    values = [luminance(drawing.style(place)["color"]) for place in range(8)]
    assert all(after - before > 20 for before, after in pairwise(values))
    assert values[-1] < 180  # and stand out from paper


def test_curves_differ_in_line_and_marker():
    looks = [drawing.style(place) for place in range(8)]
    for part in ("linestyle", "marker"):
        assert len({str(look[part]) for look in looks}) == 8


def test_measure_of_a_set_is_told_by_its_name():
    shown = [*photo_sets(DataFolders(), "smoke"), words(DataFolders(), "smoke", 0)]
    for data in shown:
        assert drawing.measure(data.name) == LABELS[data.measure]
    assert drawing.measure("something else") == "quality"


def test_axes_of_quality_name_the_measure():
    table = Table("t", CURVES, tuple(curves("Gardens Point, day", "UKB-56", "WordNet")))
    panels = drawing.quality_figure(table).axes
    assert [panel.get_ylabel() for panel in panels] == ["mAP", "4-recall@4", LABELS["found"]]
    assert "exhaustive" in panels[0].get_legend_handles_labels()[1]


def test_a_variant_looks_the_same_in_every_panel():
    rows = (*curves("UKB-56", variants=("sum", "full")), *curves("WordNet"))
    panels = drawing.quality_figure(Table("t", CURVES, rows)).axes
    shown = [zip(*panel.get_legend_handles_labels(), strict=True) for panel in panels]
    colours = [{label: line.get_color() for line, label in pairs} for pairs in shown]
    assert colours[0]["sum"] == colours[1]["sum"]
    assert colours[0]["full"] != colours[1]["pinv"]


def test_axes_of_ratios_begin_where_curves_do():
    [panel, *_] = drawing.quality_figure(Table("t", CURVES, tuple(curves("WordNet")))).axes
    assert panel.get_xscale() == "log"
    assert panel.get_xlim() == (pytest.approx(0.19), 1)
