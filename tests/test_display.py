import sys
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import memvec
from memvec.display import html_table, html_text
from memvec.errors import InvalidValueError, MissingExtraError
from memvec.evaluation import load_sample
from memvec.guarantee import Certificate

SAMPLE = load_sample()


def shown(thing):
    """Return what a notebook shows, as text; HTML that is not well formed raises."""
    html = thing._repr_html_().replace("<br>", "<br/>")
    return "\n".join(ElementTree.fromstring(f"<div>{html}</div>").itertext())


@pytest.fixture(scope="module")
def index():
    return memvec.Index.build(SAMPLE.vectors[:3000], similarity=0.6)


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    with memvec.open(tmp_path_factory.mktemp("shown") / "it.mv", dim=384) as opened:
        opened.add(SAMPLE.vectors[:3], ids=["<script>", "b&c", "d"])
        yield opened


def test_html_escapes_whatever_it_is_given():
    assert "<script>" not in html_table(["<script>"], [["<script>", 1]])
    assert "<script>" not in html_text("<script>\n<script>")


def test_hits_show_the_best_of_the_first_queries_and_the_certificate(index):
    hits = index.range_search(SAMPLE.vectors[:7], 0.6)
    text = shown(hits)
    assert f"{hits.ids[0]}: 1.000" in text
    assert "2 more queries" in text
    assert "Queries like the stored vectors miss at most 1 %" in text


def test_hits_show_queries_without_matches(index):
    assert "none" in shown(index.range_search(-SAMPLE.vectors[:1], 0.9))


def test_top_hits_show_what_was_found(index):
    top = index.search(SAMPLE.vectors[:2], k=8)
    text = shown(top)
    assert f"{top.ids[0, 0]}: 1.000" in text
    assert "…" in text
    few = memvec.Index.build(SAMPLE.vectors[:2]).search(SAMPLE.vectors[:1], k=8)
    assert "-1" not in shown(few)


def test_names_of_items_are_escaped(collection):
    hits = collection.range_search(SAMPLE.vectors[:2], 0.9)
    assert "&lt;script&gt;: 1.000" in hits._repr_html_()


def test_index_and_collection_show_their_promise(index, collection):
    assert "at most 1 % missed above 0.6" in shown(index)
    assert f"above {collection.settings.similarity:g}" in shown(collection)


def test_a_closed_collection_can_be_shown(tmp_path):
    with memvec.open(tmp_path / "it.mv", dim=8) as opened:
        pass
    assert "closed" in shown(opened)


def test_explanation_shows_each_stage(index):
    told = index.explain(SAMPLE.vectors[3], 3)
    text = shown(told)
    assert "Returned." in text
    assert all(f"{stage.threshold:.3f}" in text for stage in told.stages)
    compared = index.explain(SAMPLE.vectors[3], 3, guarantee="exact")
    assert "<th>" not in compared._repr_html_()


def test_certificate_plots_what_is_allowed_and_seen(index):
    certificate = index.range_search(SAMPLE.vectors[:1], 0.6).certificate
    rates, bands = certificate.plot().axes
    [allowed, *_] = rates.get_lines()
    assert allowed.get_xdata()[0] == 1
    assert "allowed: 1 %" in rates.get_legend().get_texts()[0].get_text()
    assert bands.get_xlabel() == "similarity of the match"
    [alone] = Certificate("expected", 0.8, 0.01, observed=0.0, live=(0.02, 0.03)).plot().axes
    assert [list(line.get_xdata()) for line in alone.get_lines()] == [[1, 1], [2, 3], [0]]


def test_certificate_without_evidence_has_nothing_to_plot():
    with pytest.raises(InvalidValueError, match=r"level 'exact' .* nothing to plot"):
        Certificate("exact", 0.9, complete=True).plot()


def test_index_plots_costs_and_scores(index):
    costs, scores = index.plot().axes
    assert {line.get_label() for line in costs.get_lines()} >= {"sum", "pinv"}
    chosen = costs.get_lines()[-1]
    assert chosen.get_xdata()[0] == index.design.unit_size
    assert [text.get_text() for text in scores.get_legend().get_texts()] == [
        "all units (H0)",
        "matches (H1)",
    ]


def test_a_figure_is_shown_as_an_image(index):
    assert index.plot()._repr_png_().startswith(b"\x89PNG")


def test_index_without_calibration_plots_costs():
    rng = np.random.default_rng(0)
    small = memvec.Index.build(rng.standard_normal((50, 16)), similarity=0.9)
    assert len(small.plot().axes) == 2


def test_index_whose_calibration_queries_have_no_match_plots_all_units():
    rng = np.random.default_rng(0)
    sparse = memvec.Index.build(rng.standard_normal((2500, 128)), similarity=0.9)
    _, scores = sparse.plot().axes
    assert [text.get_text() for text in scores.get_legend().get_texts()] == ["all units (H0)"]


def test_plots_without_matplotlib_say_their_pip_line(index, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"Index.plot\(\).*memvec\[plot\]"):
        index.plot()
