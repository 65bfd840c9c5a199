"""Experiments: plans, runs, results, and the tables and reports made of them."""

from onlinehash.experiments.plan import Plan, Run, load_plan, parse_plan
from onlinehash.experiments.references import REFERENCES
from onlinehash.experiments.reproduce import pending_runs, reproduce
from onlinehash.experiments.results import read_results
from onlinehash.experiments.run import Point, Quality, evaluate, learning_curve, prequential_curve, run
from onlinehash.experiments.streams import StreamOptions, make_stream

__all__ = [
    "REFERENCES",
    "Plan",
    "Point",
    "Quality",
    "Run",
    "StreamOptions",
    "evaluate",
    "learning_curve",
    "load_plan",
    "make_stream",
    "parse_plan",
    "pending_runs",
    "prequential_curve",
    "read_results",
    "reproduce",
    "run",
]
