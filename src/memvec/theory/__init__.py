"""The laws of the paper: scores, error rates, cost, spherical caps, imbalance, dimension."""

from memvec.theory._cap import CapMoments, cap_cosine, cap_mass, cap_moments
from memvec.theory._cap_scores import (
    CapConstruction,
    CapScores,
    PinvCapScores,
    SumCapScores,
    cap_design,
    gaussian_kl,
    pinv_cap_scores,
    sum_cap_scores,
)
from memvec.theory._cosine_sum import CosineSumLaw
from memvec.theory._cost import (
    Design,
    capacity,
    capacity_per_dimension,
    cost_curve,
    designs_by_dimension,
    optimal_design,
    unit_design,
)
from memvec.theory._effective import EffectiveDimension, effective_dimension
from memvec.theory._imbalance import imbalance_factor, unit_size_moments
from memvec.theory._match_law import MatchLaw
from memvec.theory._pinv import PinvNoiseLaw, PinvNormLaw, PinvNullLaw
from memvec.theory._rates import Construction, LawName, UnitTest
from memvec.theory._sampling import sample_cap, sample_sphere
from memvec.theory._score import ScoreLaw, score_tail
from memvec.theory._symmetric import NormalLaw, PointLaw, SymmetricLaw
from memvec.theory._thresholds import UnitConstruction, unit_score_moments, unit_thresholds

__all__ = [
    "CapConstruction",
    "CapMoments",
    "CapScores",
    "Construction",
    "CosineSumLaw",
    "Design",
    "EffectiveDimension",
    "LawName",
    "MatchLaw",
    "NormalLaw",
    "PinvCapScores",
    "PinvNoiseLaw",
    "PinvNormLaw",
    "PinvNullLaw",
    "PointLaw",
    "ScoreLaw",
    "SumCapScores",
    "SymmetricLaw",
    "UnitConstruction",
    "UnitTest",
    "cap_cosine",
    "cap_design",
    "cap_mass",
    "cap_moments",
    "capacity",
    "capacity_per_dimension",
    "cost_curve",
    "designs_by_dimension",
    "effective_dimension",
    "gaussian_kl",
    "imbalance_factor",
    "optimal_design",
    "pinv_cap_scores",
    "sample_cap",
    "sample_sphere",
    "score_tail",
    "sum_cap_scores",
    "unit_design",
    "unit_score_moments",
    "unit_size_moments",
    "unit_thresholds",
]
