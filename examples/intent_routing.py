"""Intent routing: a ticket gets an intent where the error is small enough; a person decides the rest.

`classify(text, max_error=0.1)` gives an intent if at most 10 % of the intents given like this are wrong, and otherwise
leaves the ticket to a person, with the most probable intents. There is no model to train and nothing is held out: the
error is estimated from the scores that stored tickets would have, had they not been learned. What the person decides is
one `upsert`, and the next decision knows it.

tickets.csv has 160 tickets of 10 intents, written for the examples. Each fifth of them is routed by a collection that
holds the other four. Run it:

    python examples/intent_routing.py
    python examples/intent_routing.py --table mine.csv --embed use    # columns text and intent
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import onlinehash as oh

MAX_ERRORS, N_PARTS = (0.5, 0.2, 0.1, 0.05), 5


def fill(path: str, rows: list[dict[str, str]], embed: str) -> oh.Collection:
    """Return a collection of tickets, with a small hasher that makes every run print the same."""
    hasher = oh.HROH(64, general_bits=32, n_components=256, random_state=0)
    tickets = oh.Collection.open(path, hasher, embed=embed)
    tickets.upsert(range(len(rows)), documents=texts(rows), labels=[row["intent"] for row in rows])
    return tickets


def texts(rows: Any) -> list[str]:
    """Return the texts of tickets."""
    return [row["text"] for row in rows]


def main(arguments: Sequence[str] | None = None) -> None:
    """Count what is routed at several errors, then show what a person sees."""
    parser = argparse.ArgumentParser(description="Route tickets by intent, with a stated error.")
    parser.add_argument("--table", default=Path(__file__).with_name("tickets.csv"), help="columns text and intent")
    parser.add_argument("--embed", default="char_ngrams:256", help="embedder of the tickets")
    given = parser.parse_args(arguments)
    with Path(given.table).open(newline="") as file:
        rows = list(csv.DictReader(file))
    part = np.random.default_rng(0).permutation(len(rows)) % N_PARTS

    with TemporaryDirectory() as folder:
        routed, wrong = dict.fromkeys(MAX_ERRORS, 0), dict.fromkeys(MAX_ERRORS, 0)
        for number in range(N_PARTS):
            stored = [row for row, own in zip(rows, part, strict=True) if own != number]
            asked = [row for row, own in zip(rows, part, strict=True) if own == number]
            with fill(f"{folder}/{number}.oh", stored, given.embed) as tickets:
                for max_error in MAX_ERRORS:
                    decisions: Any = tickets.classify(texts(asked), max_error=max_error)
                    labels = [(each.label, row["intent"]) for each, row in zip(decisions, asked, strict=True)]
                    routed[max_error] += sum(label is not None for label, _ in labels)
                    wrong[max_error] += sum(label not in (None, intent) for label, intent in labels)
        print("max_error  routed  wrong  left to a person")
        for max_error in MAX_ERRORS:
            n_left = len(rows) - routed[max_error]
            print(f"{max_error:>9}{routed[max_error]:>8}{wrong[max_error]:>7}{n_left:>18}")

        with fill(f"{folder}/all.oh", rows, given.embed) as tickets:
            for text in ("my card is stolen", "help me with my account", "will it rain tomorrow"):
                decision: Any = tickets.classify(text, max_error=0.1)
                names = ", ".join(f"{label} {chance:.2f}" for label, chance in decision.alternatives[:3])
                print(f"\n{text}\n  {decision.label or 'left to a person'}: {names}")
                if decision.label:
                    print(f"  such as: {tickets.get(decision.neighbours)[0].payload['document']}")
                if not decision.known:
                    print("  unlike the stored tickets")


if __name__ == "__main__":
    main()
