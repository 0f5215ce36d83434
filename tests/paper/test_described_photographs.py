"""``python -m paper --describe``: the image experiments, from photographs to verdicts."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from memvec.errors import MissingExtraError
from paper.__main__ import main
from paper.made_up_photographs import describe_made_up

pytestmark = pytest.mark.slow

# Two of those that search photographs; all of them run on made-up ones in the tests of experiments.
ON_PHOTOGRAPHS = ("fig07-retrieval", "fig13-streaming")
N_STREET = 40


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    """The layout of real photographs."""
    root = tmp_path_factory.mktemp("photographs")
    describe_made_up(root)
    for file in root.rglob("*made384.npy"):
        file.unlink()
    return root


def invoke(out, *arguments):
    return CliRunner().invoke(main, ["--scale", "smoke", "--out", str(out), *arguments])


def test_experiments_run_on_described_photographs(photographs, tmp_path):
    given = (*ON_PHOTOGRAPHS, "--data", str(photographs), "--json")
    result = invoke(tmp_path, *given, "--describe")
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    assert list(found) == list(ON_PHOTOGRAPHS)
    assert all(record["findings"] for record in found.values())
    names = {row["data"] for row in found["fig07-retrieval"]["rows"]}
    assert names == {"Gardens Point, day", "Gardens Point, night", "UKB-56"}
    assert not (tmp_path / "made-up").exists()
    kept = tmp_path / "descriptors"
    street = np.load(kept / "st-lucia" / "phi384.npy")
    assert street.shape == (N_STREET // 2, 384)
    np.testing.assert_allclose(np.linalg.norm(street, axis=1), 1, rtol=1e-5)
    # Found again by later runs, which do not describe.
    again = json.loads(invoke(tmp_path, *given).output)
    assert again == found


def test_describing_again_computes_nothing(photographs, tmp_path, monkeypatch):
    given = ("errata", "--data", str(photographs), "--describe")
    assert invoke(tmp_path, *given).exit_code == 0
    monkeypatch.setattr("paper.described_photographs.training_bags", None)
    monkeypatch.setattr("paper.described_photographs.describe_photos", None)
    assert invoke(tmp_path, *given).exit_code == 0


def test_describing_needs_the_photographs(tmp_path):
    result = invoke(tmp_path, "errata", "--data", str(tmp_path), "--describe")
    assert result.exit_code == 2
    assert "--describe needs photographs in gardens-point/images/day_left" in result.output


def test_photograph_that_cannot_be_described_is_named(photographs, tmp_path):
    ukb = tmp_path / "ukb56" / "images"
    ukb.mkdir(parents=True)
    (ukb / "000.png").write_bytes(b"no picture")
    folders = ("--data", str(tmp_path), "--data", str(photographs))
    result = invoke(tmp_path / "out", "errata", *folders, "--describe")
    assert result.exit_code == 1
    assert "000.png cannot be described: " in result.output


def test_photographs_are_made_up_once(tmp_path, monkeypatch):
    assert invoke(tmp_path, "fig08-unit-counts").exit_code == 0
    assert len(list((tmp_path / "made-up").rglob("*.png"))) == 3 * 40 + 3 * 4 + N_STREET
    monkeypatch.setattr("paper.made_up_photographs.made_up_scene", None)
    assert invoke(tmp_path, "fig08-unit-counts", "--fresh").exit_code == 0


def test_photographs_are_made_up_only_where_they_are_searched(tmp_path):
    assert invoke(tmp_path, "errata").exit_code == 0
    assert not (tmp_path / "made-up").exists()


def test_missing_extra_is_named_and_the_experiment_runs_on_vectors(tmp_path, monkeypatch):
    def missing(*given, **more):
        raise MissingExtraError("Making up photographs", "pillow", "images")

    monkeypatch.setattr("paper.made_up_photographs.made_up_scene", missing)
    result = invoke(tmp_path, "fig08-unit-counts")
    assert result.exit_code == 0
    assert "Install it with: pip install 'memvec[images]'" in result.stderr
    assert "Without it, made-up vectors take the place of described photographs." in result.stderr
    assert "made-up vectors of scenes" in result.stdout
