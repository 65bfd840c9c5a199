"""Input, cost per instance, memory and strength of every method, for the table of all methods (d features, r bits)."""

from __future__ import annotations

from typing import NamedTuple


class Traits(NamedTuple):
    """A row of the table."""

    takes: str
    cost: str
    memory: str
    shines: str


TRAITS = {
    "adapthash": Traits(
        takes="pairs of rows",
        cost="O(d r^2) per pair with a loss",
        memory="O(d r)",
        shines="labels that only say whether two items belong together",
    ),
    "bsodh": Traits(
        takes="batches of 2000",
        cost="O(d^2 + r^2)",
        memory="O(d r + classes r)",
        shines="large batches, few classes",
    ),
    "foh": Traits(
        takes="batches of 2000",
        cost="O(d^2 + r^2)",
        memory="O(d r), and r per group of equal codes of a class",
        shines="large batches, few classes",
    ),
    "frosh": Traits(
        takes="chunks of 256",
        cost="O(d sketch_size)",
        memory="O(d sketch_size)",
        shines="no labels, many features: a cheaper SketchHash",
    ),
    "hcoh": Traits(
        takes="single rows",
        cost="O(d r)",
        memory="O(d r)",
        shines="labelled streams in mixed order, new classes at any time",
    ),
    "hmoh": Traits(
        takes="single rows; anchors optional",
        cost="O(d r), with anchors O(d anchors)",
        memory="O(d r)",
        shines="labelled streams that a line does not separate (with anchors)",
    ),
    "hroh": Traits(
        takes="single rows, in any order",
        cost="O(m^2), a snapshot O(m^3); m = d + 2048",
        memory="O(m^2)",
        shines="most labelled streams; sorted ones, new classes, few bits",
    ),
    "itq": Traits(
        takes="single rows, learns in batches inside",
        cost="O(d^2), a snapshot O(d^3)",
        memory="O(d^2 + sample d)",
        shines="no labels: the highest mAP of the methods without them",
    ),
    "lsh": Traits(
        takes="single rows",
        cost="O(d)",
        memory="O(d r)",
        shines="nothing to learn from: the baseline",
    ),
    "mihash": Traits(
        takes="single rows and a reservoir",
        cost="O(reservoir (d + r))",
        memory="O(reservoir d)",
        shines="comparison with the literature; above HCOH at 8 bits",
    ),
    "okh": Traits(
        takes="pairs of rows; anchors",
        cost="O(anchors (d + r))",
        memory="O(anchors (d + r))",
        shines="comparison with the literature",
    ),
    "osh": Traits(
        takes="single rows",
        cost="O(d r)",
        memory="O(d r)",
        shines="comparison with the literature; hinge loss for use",
    ),
    "sdoh_hc": Traits(
        takes="batches of 2000; anchors",
        cost="O(anchors (d + anchors) + r^2)",
        memory="O(anchors (d + anchors + r))",
        shines="large batches of labelled rows that a line does not separate",
    ),
    "sketchhash": Traits(
        takes="batches of 50",
        cost="O(d sketch_size)",
        memory="O(d sketch_size)",
        shines="no labels, many features",
    ),
}
