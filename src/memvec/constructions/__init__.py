"""The memory vector of a unit from its members: sum, pinv, and the ridge between them."""

from memvec.constructions._batch import (
    CONSTRUCTIONS,
    Construction,
    memory_vector,
    memory_vectors,
)
from memvec.constructions._online import OnlineUnit

__all__ = ["CONSTRUCTIONS", "Construction", "OnlineUnit", "memory_vector", "memory_vectors"]
