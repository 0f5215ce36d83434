"""The errata: simulation agrees with the corrected values, and the page shows these numbers."""

from pathlib import Path

import pytest

from memvec.errors import InvalidValueError
from paper import errata_rows, errata_table

PAGE = Path(__file__).parents[2] / "docs" / "errata.md"
BEGIN, END = "<!-- errata table: begin -->", "<!-- errata table: end -->"


@pytest.fixture(scope="module")
def rows():
    return errata_rows(seed=0)


def test_simulation_agrees_with_the_corrected_values(rows):
    for row in rows:
        if row.kind in ("error", "right"):
            gap = abs(row.simulated - row.corrected)
            assert gap <= 4 * row.standard_error + 1e-12, row


def test_simulation_contradicts_the_printed_values(rows):
    for row in rows:
        if row.kind == "error":
            assert abs(row.simulated - row.paper) > 4 * row.standard_error, row


def test_corrected_approximations_are_closer(rows):
    for row in rows:
        if row.kind == "approximation":
            better = abs(row.simulated - row.corrected)
            assert better < abs(row.simulated - row.paper) + 4 * row.standard_error, row


def test_page_shows_the_computed_numbers():
    page = PAGE.read_text(encoding="utf-8")
    shown = page.split(BEGIN)[1].split(END)[0].strip()
    assert shown == errata_table(seed=0).to_markdown()


def test_errata_need_a_seed():
    with pytest.raises(InvalidValueError, match="The 'seed' parameter of errata_rows must be"):
        errata_rows(-1)
