"""``memvec cluster``: work that is spread over the nodes of a Ray cluster."""

from __future__ import annotations

from typing import Any

import click

from memvec.cli._dedup import checked_files, dedup_blocks, join_blocks
from memvec.cli._groups import FlagGroup
from memvec.cli._options import COSINE, COUNT, field_options, json_option, option, promise_options


@click.group(cls=FlagGroup)
def cluster() -> None:
    """Find duplicates and similar pairs on a Ray cluster.

    The cluster is that of RAY_ADDRESS, one that runs on this machine (`ray start`), or a new one.

    Needs `pip install 'memvec[ray]'`.
    """


@cluster.command("dedup")
@click.argument("files", nargs=-1, required=True, callback=checked_files, metavar="FILE...")
@option("--similarity", COSINE, "Cosine above which two vectors are duplicates. Without it: 0.9.")
@click.option(
    "--out",
    type=click.Path(file_okay=False),
    required=True,
    help="Folder for all pairs. All nodes must see it and the files under the same paths.",
)
@option("--keep-list", click.Path(dir_okay=False), "Write the list of rows here, as Parquet.")
@option(
    "--keep",
    click.Choice(["first", "last", "best"]),
    "Keep the first or the last of a group, or the one with the highest score (with --scores).",
    "first",
)
@option(
    "--groups",
    click.Choice(["components", "star"]),
    "Group rows that chains of duplicates connect, or only rows similar to the one kept.",
    "components",
)
@option(
    "--memory",
    str,
    "Memory of one worker, such as 4GB. Without it: the workers of a node share half of its.",
    metavar="SIZE",
)
@option("--scores", str, "With --keep best: column of the scores.", metavar="NAME")
@option("--cpus", COUNT, "CPUs of one worker.", 1)
@click.option("--keep-work", is_flag=True, help="Keep the indexes of the blocks.")
@field_options
@promise_options("0.01", "expected", "0.95")
@json_option
def dedup(files: tuple[str, ...], out: str, as_json: bool, **asked: Any) -> None:
    """Find near-duplicates in files, block by block, on all nodes.

    The output files are those of `memvec dedup --out`, byte for byte. Blocks are read,
    indexed and joined by as many workers as there are CPUs. Run the same command again after an
    interruption: it resumes.

    \b
    Example:
      memvec cluster dedup 'part-*.parquet' --column embedding --id id --similarity 0.95 \\
          --out pairs/ --keep-list kept.parquet --memory 4GB
    """  # noqa: D301 - click wants the character itself, not its name
    from memvec.cluster import deduplicate

    if (asked["keep"] == "best") != (asked["scores"] is not None):
        raise click.UsageError("--keep best needs --scores NAME, and --scores needs --keep best.")
    dedup_blocks(files, out, deduplicate, radius=None, dropped=False, as_json=as_json, **asked)


@cluster.command("join")
@click.argument("files", nargs=2, callback=checked_files, metavar="A B")
@option("--similarity", COSINE, "Cosine above which two vectors are a pair. Without it: 0.9.")
@click.option(
    "--out",
    type=click.Path(file_okay=False),
    required=True,
    help="Folder for all pairs. All nodes must see it and the files under the same paths.",
)
@option(
    "--memory",
    str,
    "Memory of one worker, such as 4GB. Without it: the workers of a node share half of its.",
    metavar="SIZE",
)
@option("--cpus", COUNT, "CPUs of one worker.", 1)
@click.option("--keep-work", is_flag=True, help="Keep the indexes of the blocks.")
@field_options
@promise_options("0.01", "expected", "0.95")
@json_option
def join(files: tuple[str, str], out: str, as_json: bool, **asked: Any) -> None:
    """Find all similar pairs of rows of A and of B, on all nodes.

    A and B are each a file of vectors, or a pattern in quotes. The folder gets all pairs as Parquet
    files (id_a, id_b, score): those of `memvec.join_files`, byte for byte. Run the same command
    again after an interruption: it resumes.

    \b
    Example:
      memvec cluster join 'train-*.parquet' 'test-*.parquet' --column embedding --id id \\
          --similarity 0.95 --out pairs/ --memory 4GB
    """  # noqa: D301 - click wants the character itself, not its name
    from memvec.cluster import join

    join_blocks(files, out, join, as_json=as_json, **asked)
