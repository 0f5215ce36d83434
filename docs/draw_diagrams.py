"""Draw the diagrams of the pages: ``python docs/draw_diagrams.py`` writes docs/diagrams/*.svg.

Each picture has a white ground of its own, so that it reads the same on light and dark pages.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

import numpy as np

import memvec
from memvec.evaluation import load_sample

HERE = Path(__file__).parent
BLUE, ORANGE, GREEN, INK, GREY, PALE = (
    "#2563a8",
    "#c2570c",
    "#2e7d4f",
    "#1b1f24",
    "#6b7280",
    "#e8eef6",
)


def picture(width: int, height: int, title: str, *parts: str) -> str:
    """Return an SVG file."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="Helvetica, Arial, sans-serif" font-size="14" fill="{INK}" '
        f'role="img"><title>{escape(title)}</title>\n'
        f'<rect width="{width}" height="{height}" rx="8" fill="#ffffff"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def text(
    x: float, y: float, words: str, anchor: str = "middle", color: str = INK, size: int = 14
) -> str:
    """Return one line of text."""
    style = f'text-anchor="{anchor}" fill="{color}" font-size="{size}"'
    return f'<text x="{x:g}" y="{y:g}" {style}>{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, fill: str = PALE, edge: str = BLUE) -> str:
    """Return a rounded box."""
    size = f'width="{width:g}" height="{height:g}"'
    return f'<rect x="{x:g}" y="{y:g}" {size} rx="5" fill="{fill}" stroke="{edge}"/>'


def line(
    x1: float,
    y1: float,
    x2: float,
    y2: float,
    color: str = GREY,
    width: float = 1.5,
    dash: str = "",
) -> str:
    """Return a line."""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}" '
        f'stroke-width="{width:g}" stroke-dasharray="{dash}"/>'
    )


def arrow(x1: float, y1: float, x2: float, y2: float, color: str = GREY, width: float = 1.5) -> str:
    """Return a line with a head."""
    angle = np.arctan2(y2 - y1, x2 - x1)
    left, right = angle + 2.7, angle - 2.7
    head = [
        (x2, y2),
        (x2 + 9 * np.cos(left), y2 + 9 * np.sin(left)),
        (x2 + 9 * np.cos(right), y2 + 9 * np.sin(right)),
    ]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in head)
    return line(x1, y1, x2, y2, color, width) + f'<polygon points="{points}" fill="{color}"/>'


def memory_vector() -> str:
    """Return three members in the plane with their sum and their pinv vector."""
    angles = np.deg2rad([18, 48, 66])
    members = np.stack([np.cos(angles), np.sin(angles)])
    least = np.linalg.pinv(members.T) @ np.ones(3)
    panels = (
        ("sum: m = Σx", members.sum(axis=1), 45, 92.0, (16, 20)),
        ("pinv: xᵀm as near to 1 as possible", least, 405, 160.0, (0, -9)),
    )
    parts = []
    for title, memory, left, scale, beside in panels:  # beside: x₂'s label would touch m
        bottom = 265
        parts += [
            text(left + 130, 30, title, size=15),
            line(left, bottom, left + 265, bottom),
            line(left, bottom, left, 50),
        ]
        for number, (x, y) in enumerate(members.T, 1):
            parts.append(arrow(left, bottom, left + scale * x, bottom - scale * y, BLUE, 2))
            right, down = beside if number == 2 else (13, 4)
            at = left + scale * x + right, bottom - scale * y + down
            parts.append(text(*at, f"x{'₁₂₃'[number - 1]}", color=BLUE))
        x, y = scale * memory
        parts += [
            arrow(left, bottom, left + x, bottom - y, ORANGE, 3.5),
            text(left + x + 14, bottom - y, "m", color=ORANGE, size=16),
        ]
        scores = ", ".join(f"{score:.2f}" for score in members.T @ memory)
        parts.append(text(left + 130, 290, f"members score xᵀm = {scores}", color=GREY, size=13))
    note = text(
        360,
        315,
        "In d > n dimensions every member of a pinv unit scores exactly 1.",
        color=GREY,
        size=13,
    )
    return picture(720, 330, "A unit of three vectors and its memory vector", *parts, note)


def bell(mean: float, spread: float, color: str, left: float, bottom: float, scale: float) -> str:
    """Return a Gaussian curve over scores from -0.4 to 1.2."""
    scores = np.linspace(-0.4, 1.2, 161)
    heights = 18 * np.exp(-((scores - mean) ** 2) / (2 * spread**2)) / spread
    points = " ".join(
        f"{left + scale * (s + 0.4):.1f},{bottom - h:.1f}"
        for s, h in zip(scores, heights, strict=True)
    )
    return f'<polyline points="{points}" fill="{color}22" stroke="{color}" stroke-width="2"/>'


def scores() -> str:
    """Return the law of a unit's score without and with a match, by the paper's design."""
    from memvec.theory import optimal_design

    design = optimal_design("pinv", dim=1000, similarity=0.7, miss_rate=0.01)
    norm = np.sqrt(design.unit_size)
    none, match = norm / np.sqrt(1000), np.sqrt(1 - 0.49) * norm / np.sqrt(1000)
    left, bottom, scale = 50, 235, 390
    limit = left + scale * (design.threshold + 0.4)
    parts = [
        bell(0, none, GREY, left, bottom, scale),
        bell(0.7, match, GREEN, left, bottom, scale),
        line(left, bottom, left + 1.6 * scale, bottom, INK),
        line(limit, 45, limit, bottom, ORANGE, 2.5, "6 4"),
        text(limit, 35, f"threshold {design.threshold:.3f}", color=ORANGE),
        text(left + 0.4 * scale, 90, "no match", color=GREY, size=15),
        text(left + 1.1 * scale, 68, "match at cosine 0.7", color=GREEN, size=15),
        text(limit - 12, 215, "missed: 1 %", "end", GREEN, 13),
        text(limit + 12, 252, "visited for nothing", "start", GREY, 13),
        *(
            text(left + scale * (tick + 0.4), bottom + 35, f"{tick:g}", color=GREY, size=12)
            for tick in (-0.4, 0, 0.4, 0.8, 1.2)
        ),
        text(
            360,
            295,
            f"score yᵀm of a pinv unit of {design.unit_size} vectors, d = 1000",
            color=INK,
            size=13,
        ),
    ]
    return picture(720, 310, "Scores of units without and with a match", *parts)


def cascade() -> str:
    """Return the stages of one query of the sample, with what each tested."""
    sample = load_sample()
    order = np.random.default_rng(0).permutation(len(sample))
    index = memvec.Index.build(sample.vectors[order[:9000]], similarity=0.6, miss_rate=0.01)
    hits = index.range_search(sample.vectors[sample.row("whale:")], 0.6)
    work = hits.work
    stages = (
        ("vectors", len(index), GREY),
        ("memory vectors tested by code", work.unit_tests, BLUE),
        ("members tested by the first words of their codes", work.members_tested, BLUE),
        ("members whose whole code is tested", work.codes_tested, BLUE),
        ("exact products", work.exact_products, ORANGE),
        ("matches returned", len(hits.ids), GREEN),
    )
    parts = []
    for number, (name, count, color) in enumerate(stages):
        top, width = 45 + 42 * number, max(3, 300 * count / len(index))
        parts += [
            text(350, top + 19, name, "end"),
            f'<rect x="365" y="{top}" width="{width:.1f}" height="28" rx="3" fill="{color}"/>',
            text(375 + width, top + 19, f"{count:,}", "start", color, 15),
        ]
    title = text(360, 26, "One query, everything above 0.6, at most 1 % missed", size=15)
    return picture(740, 305, "The stages of a search with their counts", title, *parts)


def guarantee() -> str:
    """Return how calibration queries become a threshold and a certificate."""
    columns = (
        (20, "1  hold out", "vectors that are in no unit"),
        (255, "2  find their matches", "by comparing everything"),
        (490, "3  solve the threshold", "so that they miss at most ε"),
    )
    parts = []
    for left, title, words in columns:
        parts += [
            box(left, 20, 210, 215),
            text(left + 105, 44, title, size=15),
            text(left + 105, 222, words, color=GREY, size=13),
        ]
    rng = np.random.default_rng(1)
    for x, y in rng.uniform((40, 60), (210, 200), (45, 2)):
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{ORANGE if x + y < 190 else BLUE}"/>'
        )
    for row in range(5):
        y = 80 + 28 * row
        parts.append(f'<circle cx="285" cy="{y}" r="4" fill="{ORANGE}"/>')
        parts += [
            line(290, y, 330 + 28 * match, y, GREY, 1)
            + f'<circle cx="{335 + 28 * match}" cy="{y}" r="4" fill="{BLUE}"/>'
            for match in range(1 + row % 4)
        ]
    heights = np.array([1, 2, 5, 9, 13, 16, 12, 7, 3])
    parts += [
        f'<rect x="{520 + 17 * i}" y="{200 - 7 * h}" width="14" height="{7 * h}" '
        f'fill="{ORANGE if i == 0 else GREEN}"/>'
        for i, h in enumerate(heights)
    ]
    parts += [
        line(535, 75, 535, 205, INK, 2.5, "6 4"),
        text(540, 72, "threshold", "start", size=13),
    ]
    parts += [
        arrow(232, 127, 253, 127),
        arrow(467, 127, 488, 127),
        arrow(595, 237, 595, 262),
        box(20, 265, 680, 62, "#fdf3ea", ORANGE),
    ]
    parts += [
        text(
            360,
            290,
            "Queries like the stored vectors miss at most 1 % of their matches "
            "above 0.6 on average.",
        ),
        text(
            360,
            313,
            "Certificate: level, evidence, miss rate seen, 95 % interval",
            color=GREY,
            size=13,
        ),
        text(360, 347, "Schematic: points and bars are not measured.", color=GREY, size=12),
    ]
    return picture(720, 360, "From held-out vectors to a certificate", *parts)


def folders() -> str:
    """Return the files of an index and of a collection."""
    index = (
        "synsets.index/",
        "  manifest.json|settings, checksums",
        "  g000001/*.npy|vectors, codes, units, calibration",
        "  solved/|thresholds; may be removed",
    )
    collection = (
        "synsets.mv/",
        "  catalog.sqlite|ids, metadata, deletes, waiting vectors",
        "  catalog.sqlite-wal|the latest commits",
        "  catalog.crc|checksum, while no writer is active",
        "  writer.lock|locked by the one writer",
        "  segments/000007/|a saved index and the keys of its items",
        "  segments/000008/|another segment",
        "  solved/, lost/|may be removed",
    )
    parts = []
    for top, lines in ((20, index), (140, collection)):
        parts.append(box(15, top, 690, 22 * len(lines) + 18))
        for number, entry in enumerate(lines):
            name, _, meaning = entry.partition("|")
            y = top + 26 + 22 * number
            indent = 35 + 12 * (len(name) - len(name.lstrip()))
            parts.append(
                f'<text x="{indent}" y="{y}" font-family="monospace" font-size="14" '
                f'fill="{BLUE}">{name.strip()}</text>'
            )
            parts.append(text(300, y, meaning, "start", size=13))
    return picture(720, 350, "The folder of an index and of a collection", *parts)


def rooms() -> str:
    """Return the tiers of the rooms, as the page of the architecture lists them."""
    page = (HERE / "architecture.md").read_text(encoding="utf-8")
    tiers = [
        re.findall(r"`(\w+)`", row) for row in re.findall(r"^\| \d+ \| (`.+`) \|$", page, re.M)
    ]
    parts = []
    for number, names in enumerate(tiers):
        y, width = 34 * (len(tiers) - 1 - number) + 15, 150
        left = 360 - len(names) * width / 2
        for place, name in enumerate(names):
            parts += [
                box(left + place * width + 4, y, width - 8, 26),
                text(left + place * width + width / 2, y + 18, name, size=13),
            ]
    height = 34 * len(tiers) + 45
    parts += [
        arrow(28, 20, 28, height - 45),
        text(
            360,
            height - 10,
            "Imports point down only; rooms of one tier do not import each other.",
            color=GREY,
            size=13,
        ),
    ]
    return picture(720, height, "The rooms of the package in tiers", *parts)


PICTURES = {
    "memory-vector": memory_vector,
    "scores": scores,
    "cascade": cascade,
    "guarantee": guarantee,
    "folders": folders,
    "rooms": rooms,
}

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (HERE / "diagrams" / f"{name}.svg").write_text(draw(), encoding="utf-8")
