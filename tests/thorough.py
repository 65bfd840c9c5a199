"""How often tests repeat what happens at random: a few times in each run, many times before a release."""

import os
from typing import TypeVar

T = TypeVar("T")


def times(few: T, many: T) -> T:
    """Return the first, or the second if ONLINEHASH_THOROUGH=1: numbers of repetitions, or cases."""
    return many if os.environ.get("ONLINEHASH_THOROUGH") == "1" else few
