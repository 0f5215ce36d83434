"""What a search promises, and on what evidence."""

from memvec.guarantee._certificate import Certificate, Level
from memvec.guarantee._table import CalibrationTable

__all__ = ["CalibrationTable", "Certificate", "Level"]
