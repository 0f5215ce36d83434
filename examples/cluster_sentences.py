"""Clusters of sentences of near meaning: DBSCAN of scikit-learn over the graph of an index.

Run it with ``python examples/cluster_sentences.py``; needs ``memvec[sklearn]``.
"""

import numpy as np
from sklearn.cluster import DBSCAN
from sklearn.pipeline import make_pipeline

from memvec.evaluation import load_sample
from memvec.integrations.sklearn import RangeNeighborsTransformer

RADIUS = 0.25  # 1 − cosine
SHOWN = 5


def main() -> None:
    sample = load_sample()
    graph = RangeNeighborsTransformer(radius=RADIUS)
    clusters = make_pipeline(graph, DBSCAN(eps=RADIUS, min_samples=4, metric="precomputed"))
    labels = clusters.fit_predict(sample.vectors)
    sizes = np.bincount(labels[labels >= 0])
    print(f"{len(sizes)} clusters, {np.mean(labels < 0):.0%} of {len(labels):,} in none")
    for label in np.argsort(-sizes)[:SHOWN]:
        members = np.flatnonzero(labels == label)
        names = [sample.texts[row].split(":")[0].split(",")[0] for row in members[:4]]
        print(f"  {len(members)}: {', '.join(names)} …")
    print(graph.certificate())


if __name__ == "__main__":
    main()
