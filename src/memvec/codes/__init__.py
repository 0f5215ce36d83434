"""Sign codes of rotated vectors, and the estimates of inner products that they give."""

from memvec.codes._space import CodeSpace, Encoded

__all__ = ["CodeSpace", "Encoded"]
