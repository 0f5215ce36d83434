"""Draw README's chart from the figures that ``python -m benchmarks search --json FILE`` wrote.

Run it with ``python -m benchmarks.chart FILE docs/search.svg``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

OURS = "memvec"
# Contenders that missed more than this on the judged queries did not do the job.
LARGEST_MISS = 0.02


def main(source: str, target: str) -> None:
    """Draw the milliseconds of one query, one panel a similarity, the fastest on top."""
    import matplotlib.pyplot as plt

    records = json.loads(Path(source).read_text(encoding="utf-8"))["records"]
    similarities = sorted({record["similarity"] for record in records})
    figure, axes = plt.subplots(1, len(similarities), figsize=(11, 3.4), squeeze=False)
    for axis, similarity in zip(axes[0], similarities, strict=True):
        _draw(axis, [record for record in records if record["similarity"] == similarity])
        axis.set_title(f"everything above {similarity:g}")
        axis.set_xlabel("milliseconds a query")
    figure.tight_layout()
    figure.savefig(target)


def _draw(axis: Any, records: list[dict[str, Any]]) -> None:
    shown = [r for r in records if r["miss_rate"] <= LARGEST_MISS and "untuned" not in r["name"]]
    shown = sorted((r for r in shown if "scan" not in r["name"]), key=lambda r: -r["single_ms"])
    names = [record["name"].split(",")[0] for record in shown]
    colours = ["#1b6ca8" if name == OURS else "#b8b8b8" for name in names]
    times = [record["single_ms"] for record in shown]
    bars = axis.barh(names, times, color=colours)
    axis.bar_label(bars, labels=[f"{time:.3f}" for time in times], padding=3, fontsize=8)
    axis.set_xlim(0, 1.2 * max(times))
    axis.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    main(*sys.argv[1:])
