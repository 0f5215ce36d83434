"""Measuring a search: exact ground truth, misses, retrieval measures, ROC curves, and a sample.

`exact_range` and `exact_top_k` return the truth; `count_misses` compares an answer with it.
`load_sample` returns the data that ships with the package; `memvec.files` reads other data.
"""

from memvec.evaluation._curves import RocCurve, auc, complexity_ratio, roc_curve
from memvec.evaluation._flat_rows import FlatRows
from memvec.evaluation._ground_truth import TopK, exact_range, exact_self_range, exact_top_k
from memvec.evaluation._misses import Misses, count_misses, miss_rate, missed_pairs, pair_miss
from memvec.evaluation._rankings import disagreeing_rankings, rankings_agree
from memvec.evaluation._retrieval import (
    average_precisions,
    four_recall_at_4,
    mean_average_precision,
    recall_at_k,
)
from memvec.evaluation._sample import SAMPLE_SIZE, Sample, load_sample

__all__ = [
    "SAMPLE_SIZE",
    "FlatRows",
    "Misses",
    "RocCurve",
    "Sample",
    "TopK",
    "auc",
    "average_precisions",
    "complexity_ratio",
    "count_misses",
    "disagreeing_rankings",
    "exact_range",
    "exact_self_range",
    "exact_top_k",
    "four_recall_at_4",
    "load_sample",
    "mean_average_precision",
    "miss_rate",
    "missed_pairs",
    "pair_miss",
    "rankings_agree",
    "recall_at_k",
    "roc_curve",
]
