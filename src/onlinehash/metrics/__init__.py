"""Measures of codes and rankings."""

from onlinehash.metrics.online import Curve, Prequential, checkpoints
from onlinehash.metrics.ranking import (
    AsymmetricRanking,
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
