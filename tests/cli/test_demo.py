import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from click.testing import CliRunner

from memvec.cli import main
from memvec.cli._demo_picture import ScorePicture
from memvec.guarantee import NullLaw

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def picture(tmp_path_factory):
    return tmp_path_factory.mktemp("demo") / "pictures" / "scores.svg"


@pytest.fixture(scope="module")
def output(picture):
    arguments = ["demo", "--picture", str(picture)]
    result = CliRunner().invoke(main, arguments, env={"COLUMNS": "120"})
    assert result.exit_code == 0, result.output
    return result.output


def test_demo_answers_readable_queries(output):
    assert "whale: any of the larger cetacean mammals" in output
    assert re.search(r"0\.\d{3}  dolphin: any of various small toothed whales", output)


def test_demo_cuts_texts_to_the_width(output):
    lines = [line for line in output.splitlines() if "finback whale" in line]
    assert len(lines) == 1
    assert len(lines[0]) == 120
    assert lines[0].endswith("…")


def test_demo_checks_the_promise_against_the_truth(output):
    row = r"{}\s+│\s+([\d,]+) │\s+([\d.]+) % │\s+([\d.]+) % │"
    rows = [re.search(row.format(name), output) for name in ("NumPy scan", "threshold", "memvec")]
    numbers = [[float(n.replace(",", "")) for n in found.groups()] for found in rows]
    (n_true, *none), (n_best, pairs_lost, _), (n_found, pairs_missed, missed) = numbers
    assert none == [0, 0]
    assert n_true * 0.99 <= n_found <= n_true
    assert pairs_missed == pytest.approx(100 * (1 - n_found / n_true), abs=0.06)
    assert missed < 1  # 0.59 was seen
    assert pairs_lost == pytest.approx(100 * (1 - n_best / n_true), abs=0.6)
    assert pairs_lost > 10  # 20 was seen


def test_demo_counts_tests_by_code_and_exact_products_apart(output):
    text = " ".join(output.split())
    found = re.search(r"takes ([\d,]+) tests of one-bit codes and ([\d,]+) exact products", text)
    by_code, exact = (int(number.replace(",", "")) for number in found.groups())
    assert exact < 100 < by_code < 33_000


def test_demo_shows_pairs_that_are_nearly_the_same(output):
    assert "left hemisphere, left brain" in output
    assert "right hemisphere, right brain" in output


def test_demo_draws_the_scores_in_a_file(output, picture):
    root = ElementTree.parse(picture).getroot()
    bars = [bar for bar in root.iter(f"{SVG}rect") if bar.get("fill") == "#1b6ca8"]
    assert len(bars) == 8  # from 0.6 to 1, in steps of 0.05
    assert "above 0.6" in "".join(root.itertext())
    assert str(picture) in output.replace("\n", "")


def test_demo_refuses_a_similarity_out_of_range():
    result = CliRunner().invoke(main, ["demo", "--similarity", "1.5"])
    assert result.exit_code == 2
    assert "--similarity" in result.output


@pytest.fixture(scope="module")
def counted():
    rng = np.random.default_rng(4)
    law = NullLaw.of_pairs(rng.normal(scale=0.1, size=10_000).astype(np.float32))
    scores = np.array([[-0.04, 0.01, 0.02, 0.96], [0.01, 0.03, 0.04, 1.0000001]], np.float32)
    return ScorePicture.of_scores(scores, 0.9, law)


def test_picture_counts_vectors_a_query(counted):
    assert counted.edges[0] == pytest.approx(-0.05)
    assert counted.found[[0, 1, -1]].tolist() == [0.5, 2.5, 1.0]
    assert counted.found.sum() == 4
    # Half of the vectors that have nothing to do with a query score below 0, nearly all above -1.
    assert counted.expected[counted.edges[:-1] > -0.01].sum() == pytest.approx(2)


def test_picture_marks_the_threshold_where_it_lies(counted):
    lines = counted.lines()
    place = next(i for i, line in enumerate(lines) if "above 0.9" in line)
    assert lines[place - 1].lstrip().startswith("0.85")
    assert lines[place + 1].lstrip().startswith("0.90")
    assert lines[-1].endswith("█ 1")


def test_demo_names_and_shows_the_page(output, monkeypatch):
    from memvec import server
    from memvec.collection import open_collection

    assert "memvec demo --page" in output
    seen = []

    def look(settings, **options):
        with open_collection(settings.folder / "synsets", read_only=True) as collection:
            seen.append((len(collection), settings.port, collection.get(0).metadata))

    monkeypatch.setattr(server, "serve", look)
    assert CliRunner().invoke(main, ["demo", "--page", "--port", "0"]).exit_code == 0
    [(n_items, port, metadata)] = seen
    assert (n_items, port, list(metadata)) == (10_000, 0, ["text"])
