"""The libraries of the search benchmark, each behind the same few methods.

All of these install from PyPI with the ``bench`` extra on Linux and Python 3.11, in the versions
below, beside NumPy 2.4 and Numba 0.68; there are wheels for 3.12 and 3.13, too, except of hnswlib,
which is compiled everywhere. A library that is not installed is left out of a run, and named.

| library | version | index types | what does not work |
|---|---|---|---|
| faiss-cpu | 1.15.1 | Flat, IVFFlat, IVF+PQ and IVF+RaBitQ fast-scan, HNSW, BinaryFlat | range search of RaBitQ fast-scan ignores the radius: refined k nearest instead |
| hnswlib | 0.8.0 | HNSW (source only: needs a C++ compiler) | |
| usearch | 2.26.6 | HNSW in float32, bf16 and int8 | the radius argument of a search has no effect |
| pynndescent | 0.7.0 | neighbour graph | first use compiles for 30 to 95 s |
| scann | 1.4.2 | tree, anisotropic codes, reordering | |
| scalable-vs | 0.5.0 | Vamana in float32 and float16 | LVQ and LeanVec stop the process on processors not made by Intel |
| ngt | 2.8.0 | ANNG | its Python module searches quantised graphs but has no call that builds one |
| opencv-python-headless | 5.0.0 | FLANN: k-means tree, autotuned | autotuning takes no parameters from Python |

FLANN's own bindings were tried, too: ``cyflann`` does not build (its setup imports NumPy without
asking for it); ``pyflann3`` builds and searches, but its radius search came back empty and its
autotuning chose the linear scan.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from benchmarks.peers.contender import Answer, Contender, Ladder, Setting

_Make = Callable[[], Contender]


def _peer(module: str, name: str, *arguments: object) -> _Make:
    """Return a maker that imports the library only when its turn comes."""

    def make() -> Contender:
        return getattr(import_module(f"benchmarks.peers.{module}"), name)(*arguments)

    return make


CONTENDERS: dict[str, _Make] = {
    "scan": _peer("scans", "BlasScan"),
    "memvec": _peer("memvec_index", "Memvec"),
    "memvec-reserve": _peer("memvec_index", "Memvec", "memvec, own reserve", True),
    "faiss-flat": _peer("faiss_index", "FaissFlat"),
    "faiss-ivf": _peer("faiss_index", "FaissIvf", 2),
    "faiss-ivf-fine": _peer("faiss_index", "FaissIvf", 8),
    "faiss-ivfpq": _peer("faiss_index", "FaissRefined", "PQ"),
    "faiss-rabitq": _peer("faiss_index", "FaissRefined", "RaBitQ"),
    "faiss-hnsw": _peer("faiss_index", "FaissHnsw", 32),
    "faiss-hnsw-16": _peer("faiss_index", "FaissHnsw", 16),
    "faiss-binary": _peer("faiss_index", "FaissBinary"),
    "hnswlib": _peer("hnswlib_index", "Hnswlib", 16),
    "hnswlib-32": _peer("hnswlib_index", "Hnswlib", 32),
    "usearch": _peer("usearch_index", "Usearch", "bf16"),
    "usearch-f32": _peer("usearch_index", "Usearch", "f32"),
    "usearch-i8": _peer("usearch_index", "Usearch", "i8"),
    "pynndescent": _peer("pynndescent_index", "Pynndescent"),
    "scann": _peer("scann_index", "Scann"),
    "svs": _peer("svs_index", "Svs", "float16"),
    "svs-f32": _peer("svs_index", "Svs", "float32"),
    "ngt": _peer("ngt_index", "Ngt"),
    "flann": _peer("flann_index", "Flann", False),
    "flann-autotuned": _peer("flann_index", "Flann", True),
}

# Second builds of a library, and builds of many minutes, run where they are named.
BY_NAME_ONLY = {
    "memvec-reserve",
    "faiss-hnsw-16",
    "hnswlib-32",
    "usearch-f32",
    "svs-f32",
    "flann-autotuned",
}
DEFAULT = tuple(name for name in CONTENDERS if name not in BY_NAME_ONLY)

DISTRIBUTIONS = (
    "numpy",
    "faiss-cpu",
    "hnswlib",
    "usearch",
    "pynndescent",
    "scann",
    "scalable-vs",
    "ngt",
    "opencv-python-headless",
)

__all__ = [
    "BY_NAME_ONLY",
    "CONTENDERS",
    "DEFAULT",
    "DISTRIBUTIONS",
    "Answer",
    "Contender",
    "Ladder",
    "Setting",
]
