"""A process that solves nothing: what it promises was solved before."""

import numpy as np

from memvec.guarantee import Calibration, CalibrationTable, ThresholdFamily


def forbid(monkeypatch):
    """Let whatever solves fail from here on; planted are only rows that these ask for."""

    def refuse(*_, **__):
        raise AssertionError("something is solved")

    monkeypatch.setattr(Calibration, "for_range", refuse)
    monkeypatch.setattr(CalibrationTable, "solve", refuse)
    monkeypatch.setattr(ThresholdFamily, "of_pairs", refuse)


def unseen(packed):
    """Return all rows of a packed table; what stages see of far ones is nothing here."""
    return packed.whole(lambda queries, *_: np.zeros((2, len(queries), packed.n_stages), "f4"))
