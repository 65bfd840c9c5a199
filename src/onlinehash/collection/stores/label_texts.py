"""Labels as stores keep them: one label is its JSON, several are a list in JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence

from onlinehash.collection.types import Label

LABELS = "$labels"
"""What stands for the labels where a path in the payload would be indexed; no path begins with ``$``."""

MERGED = 100  # texts whose items are merged in order
DISTINCT = 2000  # texts with several labels that are looked through


def texts_of(labels: Sequence[Label]) -> list[str]:
    """Return labels as they are stored where an item has one.

    Examples
    --------
    >>> texts_of(["cat", "dog"]), texts_of([3])
    (['"cat"', '"dog"'], ['3'])
    """
    return [json.dumps(label) for label in labels]
