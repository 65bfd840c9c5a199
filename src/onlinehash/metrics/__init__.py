"""Measures of codes and rankings."""

from onlinehash.metrics.asymmetric import AsymmetricRanking
from onlinehash.metrics.online import Curve, checkpoints
from onlinehash.metrics.prequential import Prequential
from onlinehash.metrics.ranking import (
    RadiusPrecision,
    Ranking,
    mean_average_precision,
    precision_at_k,
    precision_within_radius,
    recall_at_k,
)

__all__ = [
    "AsymmetricRanking",
    "Curve",
    "Prequential",
    "RadiusPrecision",
    "Ranking",
    "checkpoints",
    "mean_average_precision",
    "precision_at_k",
    "precision_within_radius",
    "recall_at_k",
]
