"""Measures of codes and rankings."""

from onlinehash.metrics.online import Curve, Prequential, checkpoints
from onlinehash.metrics.ranking import AsymmetricRanking, RadiusPrecision, Ranking, mean_average_precision

__all__ = [
    "AsymmetricRanking",
    "Curve",
    "Prequential",
    "RadiusPrecision",
    "Ranking",
    "checkpoints",
    "mean_average_precision",
]
