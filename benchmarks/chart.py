"""Draw README's chart from the figures that ``python -m benchmarks search --json FILE`` wrote.

Run it with ``python -m benchmarks.chart FILE docs/search.svg``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

# Ours is shown as users have it: asked for 1 %, and not tuned.
OURS, TUNED = "memvec, untuned", "memvec"
RESERVE = ("memvec, own reserve", "memvec, own reserve, untuned")


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
    hidden = (TUNED, *RESERVE)
    shown = [r for r in records if r["name"] not in hidden and "scan" not in r["name"]]
    shown.sort(key=lambda record: -record["single_ms"])
    names = [record["name"].split(",")[0].removesuffix(" range") for record in shown]
    colours = ["#1b6ca8" if record["name"] == OURS else "#b8b8b8" for record in shown]
    times = [record["single_ms"] for record in shown]
    labels = [f"{r['single_ms']:.3f} (missed {r['miss_rate']:.1%})" for r in shown]
    bars = axis.barh(names, times, color=colours)
    axis.bar_label(bars, labels=labels, padding=3, fontsize=8)
    axis.set_xlim(0, 2.4 * max(times))
    axis.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    main(*sys.argv[1:])
