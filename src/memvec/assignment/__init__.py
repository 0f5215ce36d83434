"""Which vectors share a unit: at random, or by spherical k-means, in batches or in two steps."""

from memvec.assignment._kmeans import kmeans_assignment
from memvec.assignment._random import random_assignment
from memvec.assignment._result import Assignment
from memvec.assignment._second import second_units
from memvec.assignment._split import batch_assignment, sampled_assignment, two_step_assignment

__all__ = [
    "Assignment",
    "batch_assignment",
    "kmeans_assignment",
    "random_assignment",
    "sampled_assignment",
    "second_units",
    "two_step_assignment",
]
