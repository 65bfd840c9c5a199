"""Experiments: plans, runs, one result file a run, and tables made of them."""

from onlinehash.experiments.bounds import BOUNDS
from onlinehash.experiments.plan import Plan, Run, load_plan, parse_plan
from onlinehash.experiments.reproduce import open_runs, reproduce
from onlinehash.experiments.results import read_results
from onlinehash.experiments.run import Point, Quality, execute, judge, learning_curve
from onlinehash.experiments.streams import StreamOptions, arrange

__all__ = [
    "BOUNDS",
    "Plan",
    "Point",
    "Quality",
    "Run",
    "StreamOptions",
    "arrange",
    "execute",
    "judge",
    "learning_curve",
    "load_plan",
    "open_runs",
    "parse_plan",
    "read_results",
    "reproduce",
]
