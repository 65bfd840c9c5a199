"""A semantic cache that learns from a wrong hit: one correction, and similar questions get the right answer, too.

A cache answers a question with the stored answer of a similar one, and saves the call of a slow or costly model. Its
weak point are wrong hits: "can i close an account online" is spelled like "can i open an account online". Here a label
says which answer a question has. When a user rejects an answer, the question is stored with the right one: the
collection learns in which words the two differ, and other wordings of the question no longer hit the wrong answer.

The questions were written for this example; `char_ngrams` knows spelling only. A hit is a distance of at most 0.25:
choose it on questions of your own. Run it:

    python examples/semantic_cache.py
    python examples/semantic_cache.py --embed use    # knows meaning: pip install '.[text]'
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from tempfile import TemporaryDirectory

import onlinehash as oh

MAX_DISTANCE = 0.25
CACHED = {
    "how to open an account": """how do i open an account; i want to open an account; open a new account for me;
        can i open an account online""",
    "the fees": """what does an account cost; how much is the monthly fee; what are the fees of a transfer;
        is there a fee for the card""",
    "the limits": """what is my card limit; raise the limit of my card; how much can i withdraw per day;
        change my daily limit""",
    "the exchange rates": """what is the exchange rate today; how many dollars do i get for 100 euros;
        current rate of the pound; which exchange rate do you use""",
    "the statements": """where is my bank statement; send me the statement of may; how do i download a statement;
        i need last month's statement""",
}
REJECTED, RIGHT = "can i close an account online", "how to close an account"
ASKED = {
    RIGHT: [
        "how do i close an account", "i want to close my account", "close my account for me please",
        "can my father close his account",
    ],
    "how to open an account": ["how can i open an account", "can my son open an account"],
    "the fees": ["how much is the fee"],
    "the statements": ["send the statement of june please"],
}  # fmt: skip


def answer(cache: oh.Collection, question: str) -> str | None:
    """Return the cached answer; None if there is none, and the model has to be called."""
    found = cache.search(question, k=1, include=["labels"])
    return str(found.labels[0]) if found.labels and found.distances[0] <= MAX_DISTANCE else None


def report(cache: oh.Collection) -> None:
    """Ask all questions, and print what comes back."""
    counts = {"right": 0, "wrong": 0, "not cached": 0}
    for right, questions in ASKED.items():
        for question in questions:
            given = answer(cache, question)
            kind = "not cached" if given is None else "right" if given == right else "wrong"
            counts[kind] += 1
            print(f"  {question:<40}{given or '-':<26}{kind}")
    print("  " + ", ".join(f"{count} {kind}" for kind, count in counts.items()) + "\n")


def main(arguments: Sequence[str] | None = None) -> None:
    """Fill a cache, ask, correct a wrong hit, ask again."""
    parser = argparse.ArgumentParser(description="A semantic cache that learns from a wrong hit.")
    parser.add_argument("--embed", default="char_ngrams:256", help="embedder of the questions")
    given = parser.parse_args(arguments)
    hasher = oh.HROH(64, general_bits=32, n_components=256, random_state=0)  # small and seeded, to print the same
    with TemporaryDirectory() as folder, oh.Collection.open(f"{folder}/cache.oh", hasher, embed=given.embed) as cache:
        for label, lines in CACHED.items():
            questions = [" ".join(line.split()) for line in lines.split(";")]
            cache.upsert(questions, documents=questions, labels=[label] * len(questions))
        cache.refresh()
        print(f"{REJECTED}: {answer(cache, REJECTED)}")
        report(cache)

        cache.upsert(REJECTED, documents=REJECTED, labels=RIGHT)  # the user said no, and the model gave this answer
        cache.refresh()  # happens by itself when no more changes come; here, to print the same every time
        print(f"{REJECTED}, after one correction: {answer(cache, REJECTED)}")
        report(cache)


if __name__ == "__main__":
    main()
