"""Experiments: streams learned, codes judged, results kept."""

from onlinehash.experiments.run import Point, Quality, judge, learning_curve

__all__ = ["Point", "Quality", "judge", "learning_curve"]
