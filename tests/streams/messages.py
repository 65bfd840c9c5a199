"""Messages for tests."""

from __future__ import annotations

import json

import numpy as np

VECTORS = np.random.default_rng(3).normal(size=(64, 16)).astype(np.float32)


def item(id, label=None, payload=None):
    """A message about an item; ids are integers."""
    return {"id": id, "vectors": VECTORS[id % 64].tolist(), "label": label, "payload": payload}


def line(number, label=0, **more):
    """The same as JSON, with a label, and whatever is to be different."""
    return json.dumps({**item(number, label), **more}).encode()
