"""Measures of codes and rankings."""

from onlinehash.metrics.online import Curve, Prequential, checkpoints
from onlinehash.metrics.ranking import AsymmetricRanking, RadiusPrecision, Ranking, mean_average_precision
from onlinehash.metrics.retrievability import coverage, self_recall

__all__ = [
    "AsymmetricRanking",
    "Curve",
    "Prequential",
    "RadiusPrecision",
    "Ranking",
    "checkpoints",
    "coverage",
    "mean_average_precision",
    "self_recall",
]
