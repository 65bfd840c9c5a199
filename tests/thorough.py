"""How often tests repeat what happens at random: a few times in each run, many times before a release."""

import os


def times(few: int, many: int) -> int:
    """Return the number of repetitions, which is the larger one if ONLINEHASH_THOROUGH=1."""
    return many if os.environ.get("ONLINEHASH_THOROUGH") == "1" else few
