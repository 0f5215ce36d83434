"""``memvec demo --page``: the sample in a browser."""

from __future__ import annotations

import tempfile
import webbrowser
from pathlib import Path

from memvec.collection import open_collection
from memvec.evaluation import load_sample


def show_page(similarity: float, miss_rate: float, port: int) -> None:
    """Serve the sample until interrupted, and open a browser."""
    from memvec.server import ServerSettings, serve

    sample = load_sample()
    with tempfile.TemporaryDirectory(prefix="memvec-demo-") as folder:
        with open_collection(
            Path(folder) / "synsets",
            dim=sample.vectors.shape[1],
            similarity=similarity,
            miss_rate=miss_rate,
            seal_at=0,
        ) as collection:
            collection.add(sample.vectors, metadata=[{"text": text} for text in sample.texts])
            collection.seal()
        settings = ServerSettings(Path(folder), port=port)
        serve(settings, when_ready=webbrowser.open, quiet=True)
