"""Timing and printing, the same for every benchmark."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence

import click

import memvec


def interleaved(contenders: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Return the seconds of every round of each contender; one round of each follows the other."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, work in contenders.items():
            started = time.perf_counter()
            work()
            seconds[name].append(time.perf_counter() - started)
    return seconds


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Return "median (lowest–highest)"."""
    low, high = min(values), max(values)
    return f"{statistics.median(values):.{digits}f} ({low:.{digits}f}–{high:.{digits}f})"


def machine() -> str:
    """Return one line on where the figures come from."""
    model = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            model = next(
                (x.split(":")[1].strip() for x in lines if x.startswith("model name")), model
            )
    return (
        f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"memvec {memvec.__version__}, {time.strftime('%Y-%m-%d')}"
    )


def print_table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[str]], note: str = ""
) -> None:
    """Print a Markdown table under a title, the machine and a note."""
    click.echo(f"\n### {title}\n\n{machine()}\n")
    if note:
        click.echo(f"{note}\n")
    click.echo("| " + " | ".join(header) + " |")
    click.echo("|" + "---|" * len(header))
    for row in rows:
        click.echo("| " + " | ".join(row) + " |")
