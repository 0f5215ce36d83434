"""What a search promises, and on what evidence."""

from memvec.guarantee._certificate import Certificate

__all__ = ["Certificate"]
