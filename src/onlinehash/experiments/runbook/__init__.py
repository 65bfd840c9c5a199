"""Runbooks: a file of inserts, deletes, relabels, drift and searches, run on a collection and on others.

A runbook is a TOML file: a data set, and steps that happen one after the other.

====================================================  =================================================================
step                                                  what happens
====================================================  =================================================================
``do = "insert"``, ``n = 400``                        the next 400 rows of the data set are stored, with their labels
``do = "delete"``, ``n = 100``                        100 random stored items are deleted
``do = "relabel"``, ``from = 3``, ``to = 8``          stored items of one class, and queries, get the label of another
``do = "drift"``, ``degrees = 20``                    rows inserted and queries from here on are rotated further
``do = "train"``                                      engines that have to be trained are, from what is stored
``do = "search"``, ``n = 200``                        200 held-out rows of the classes stored are searched for
====================================================  =================================================================

``insert`` and ``delete`` take ``classes = [0, 1]``, so that classes arrive late or disappear; ``delete`` without ``n``
deletes all items of them.
"""

from onlinehash.experiments.runbook.engines import ENGINES, CollectionEngine, Engine
from onlinehash.experiments.runbook.run import Measured, run_runbook
from onlinehash.experiments.runbook.steps import SMALL_RUNBOOK, Runbook, Step, load_runbook, parse_runbook

__all__ = [
    "ENGINES",
    "SMALL_RUNBOOK",
    "CollectionEngine",
    "Engine",
    "Measured",
    "Runbook",
    "Step",
    "load_runbook",
    "parse_runbook",
    "run_runbook",
]
