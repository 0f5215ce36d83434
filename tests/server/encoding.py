"""An encoder for tests: a text is the row of the sample that it names."""

from memvec.evaluation import load_sample


def encode(given):
    return load_sample().vectors[int(given) % 2500]
