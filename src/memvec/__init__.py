"""Similarity search with memory vectors.

Find everything above a similarity, miss at most a stated fraction, and show the proof.

>>> import memvec, numpy as np
>>> vectors = np.random.default_rng(0).standard_normal((1000, 64))
>>> index = memvec.Index.build(vectors, similarity=0.7, miss_rate=0.01)
>>> index.range_search(vectors[:2])
Hits(2 queries, 2 matches, cost ratio ...)
"""

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

__all__ = [
    "AsyncClient",
    "Client",
    "Collection",
    "Hits",
    "Index",
    "IndexConfig",
    "MemvecError",
    "TopHits",
    "__version__",
    "deduplicate",
    "deduplicate_files",
    "join",
    "join_files",
    "open",
    "self_join",
]

# Importing memvec imports nothing else: a name is fetched from its room when it is first used.
if TYPE_CHECKING:
    from memvec.client import AsyncClient, Client
    from memvec.collection import Collection, deduplicate_files, join_files
    from memvec.collection import open_collection as open  # noqa: A004 (as gzip and wave have one)
    from memvec.errors import MemvecError
    from memvec.index import Index, IndexConfig, deduplicate, join, self_join
    from memvec.search import Hits, TopHits

    __version__: str
else:
    _HOMES = {
        "AsyncClient": "memvec.client",
        "Client": "memvec.client",
        "Collection": "memvec.collection",
        "Hits": "memvec.search",
        "Index": "memvec.index",
        "IndexConfig": "memvec.index",
        "MemvecError": "memvec.errors",
        "TopHits": "memvec.search",
        "deduplicate": "memvec.index",
        "deduplicate_files": "memvec.collection",
        "join": "memvec.index",
        "join_files": "memvec.collection",
        "open": "memvec.collection",
        "self_join": "memvec.index",
    }

    def __getattr__(name: str) -> Any:
        if name in _HOMES:
            own_name = "open_collection" if name == "open" else name
            found = getattr(import_module(_HOMES[name]), own_name)
        elif name == "__version__":
            from importlib.metadata import version

            found = version("memvec")
        elif name.isidentifier() and not name.startswith("_") and find_spec(f"memvec.{name}"):
            found = import_module(f"memvec.{name}")
        else:
            # With the module, tracebacks can suggest a name that is spelt alike.
            text = f"module 'memvec' has no attribute {name!r}"
            raise AttributeError(text, name=name, obj=sys.modules[__name__])
        globals()[name] = found
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
