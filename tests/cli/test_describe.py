"""``memvec reproduce --describe``: the image experiments, from photographs to verdicts."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from memvec.cli import main

# Those that search photographs, with φ_Δ.
ON_PHOTOGRAPHS = (
    "fig04-unit-probability",
    "fig05-matches-per-unit",
    "tab01-imbalance",
    "fig06-query-cost",
    "fig07-retrieval",
    "fig08-unit-counts",
    "fig09-pca",
    "fig11-codes-symmetric",
    "fig12-codes-asymmetric",
    "power-law",
)
N_FRAMES, N_OBJECTS, N_STREET = 40, 3, 40


def photograph(seed, view):
    """Discs covering discs, seen with a small shift of the camera."""
    rng = np.random.default_rng(seed)
    height, width = 100, 130
    pixels = np.zeros((height + 12, width + 12, 3), dtype=np.uint8)
    rows, columns = np.ogrid[: height + 12, : width + 12]
    for _ in range(120):
        y, x = rng.uniform(0, height + 12), rng.uniform(0, width + 12)
        disc = (rows - y) ** 2 + (columns - x) ** 2 < 16 / rng.uniform(0.01, 1)
        pixels[disc] = rng.integers(0, 256, 3)
    shift = np.random.default_rng([seed, view]).integers(0, 12, 2) if view else (6, 6)
    return pixels[shift[0] : shift[0] + height, shift[1] : shift[1] + width]


def write(folder, seeds_and_views):
    folder.mkdir(parents=True)
    for number, (seed, view) in enumerate(seeds_and_views):
        Image.fromarray(photograph(seed, view)).save(folder / f"{number:03d}.png")


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    root = tmp_path_factory.mktemp("photographs")
    for view, walk in enumerate(("day_left", "day_right", "night_right")):
        frames = [(seed, view) for seed in range(N_FRAMES)]
        write(root / "gardens-point" / "images" / walk, frames)
    objects = [(100 + place, view) for place in range(N_OBJECTS) for view in range(4)]
    write(root / "ukb56" / "images", objects)
    write(root / "st-lucia" / "images", [(200 + seed, 0) for seed in range(N_STREET)])
    return root


def invoke(out, *arguments):
    return CliRunner().invoke(
        main, ["reproduce", "--scale", "smoke", "--out", str(out), *arguments]
    )


def test_experiments_run_on_described_photographs(photographs, tmp_path):
    given = (*ON_PHOTOGRAPHS, "--data", str(photographs), "--json")
    result = invoke(tmp_path, *given, "--describe")
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    assert list(found) == list(ON_PHOTOGRAPHS)
    assert all(record["findings"] for record in found.values())
    names = {row["data"] for row in found["fig07-retrieval"]["rows"]}
    assert names == {"Gardens Point, day", "Gardens Point, night", "UKB-56"}
    # Copies shifted by some pixels are found among the others, whatever the promise of the paper.
    assert min(row["baseline"] for row in found["fig07-retrieval"]["rows"]) > 0.2
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
    monkeypatch.setattr("memvec.cli._describe.training_bags", None)
    monkeypatch.setattr("memvec.cli._describe.describe_photos", None)
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
