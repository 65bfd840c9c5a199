"""The case for the project, in the README and on the page that compares: figures, tables and sentences of results."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from math import log2

from _parts import INK, LINES, ROOT, SOFT, filled, results_of, svg_frame, svg_text

from onlinehash.experiments.tables import MEASURES, Cells, base_name, form_value, measured
from onlinehash.hashers import HASHERS

ALTERNATIVES = ROOT / "benchmarks" / "results" / "alternatives.json"

DATASETS = {"mnist": "MNIST", "cifar10": "CIFAR-10", "clinc150": "CLINC150"}
LENGTHS = (16, 32, 64)
SHORT_LENGTH = 32
SHORT_ROWS = ("HROH", "HMOH", "HCOH", "MIHash", "OSH", "FROSH", "SketchHash", "OKH", "AdaptHash")
ASYMMETRIC = "HROH (asymmetric)"
VARIANTS = re.compile(r"\(as |C = |\(linear|bias|general bits|candidates|sharpened")  # not shown

Sizes = dict[int, float]
"""mAP by bytes per item."""

# Whether it learns from labels; item by item; takes a new class without starting over; unlearns; gives distances. Empty
# where it learns nothing.
WAYS = {
    "HROH": ("**HROH**", "yes", "yes", "yes", "yes", "yes"),
    "float32, cosine": ("the vectors themselves, cosine", "no", "", "yes", "", "yes"),
    "faiss RaBitQ, 1 bit per feature": ("faiss RaBitQ, 1 bit per feature", "no", "no", "yes", "no", "yes"),
    "sign bits": ("sign bits of all features", "no", "", "yes", "", "yes"),
    "faiss LSH": ("faiss LSH", "no", "", "yes", "", "yes"),
    "faiss ITQ": ("faiss ITQ", "no", "no", "yes", "no", "yes"),
    "scikit-learn SGDClassifier, predicted class": (
        "scikit-learn `SGDClassifier`, the predicted class",
        "yes",
        "yes",
        "no",
        "no",
        "no",
    ),
    "scikit-learn LogisticRegression, predicted class": (
        "scikit-learn `LogisticRegression`, the predicted class",
        "yes",
        "no",
        "no",
        "no",
        "no",
    ),
    "scikit-learn LogisticRegression, predicted class, soft queries": (
        "the same, ranked by the probabilities of the query's classes",
        "yes",
        "no",
        "no",
        "no",
        "yes",
    ),
    "scikit-learn LinearSVC, predicted class": (
        "scikit-learn `LinearSVC`, the predicted class",
        "yes",
        "no",
        "no",
        "no",
        "no",
    ),
    "river": ("river, the predicted class", "yes", "yes", "yes", "no", "no"),
}
SHOWN_BYTES = {"HROH": (1, 2, 8)}  # of those measured; all for the others


def comparison_page() -> str:
    """Put the figure's sentences and the tables into the page that compares."""
    text = (ROOT / "docs" / "comparison.md").read_text()
    parts = {
        "case": _sentences(),
        "published": _published_table().replace("](docs/", "]("),
        "instead": _alternatives_table(),
        "ada": _ada_table(),
    }
    for name, part in parts.items():
        text = filled(text, name, part)
    return text


def readme_page() -> str:
    """Put the short table into the README."""
    return filled((ROOT / "README.md").read_text(), "short", _short_table())


def _short_table() -> str:
    """Compare the methods of the paper, the best other method and ours, at one length."""
    columns = [_hashers(name, measure) for name in DATASETS for measure in MEASURES]
    heads = [f"{title} {short}" for title in DATASETS.values() for short in ("mAP", "new", "P")]
    lines = [f"| | {' | '.join(heads)} |", "|---|" + "---|" * len(heads)]
    best = [max(cells[method][SHORT_LENGTH] for method in SHORT_ROWS if method in cells) for cells in columns]
    for method in SHORT_ROWS:
        values = []
        for cells, most in zip(columns, best, strict=True):
            value = cells.get(method, {}).get(SHORT_LENGTH)
            shown = "" if value is None else form_value(value)
            values.append(f"**{shown}**" if value == most else shown)
        lines.append(f"| {_linked(method)} | {' | '.join(values)} |")
    return "\n".join(lines) + "\n"


def _sentences() -> str:
    everywhere, unlearned = alternatives("mAP"), alternatives("mAP among items not learned from")
    (full,) = everywhere["float32, cosine"]
    hroh, floats = everywhere["HROH"], everywhere["float32, cosine"][full]
    (guess,) = everywhere["scikit-learn SGDClassifier, predicted class"].values()
    classifier = "scikit-learn LogisticRegression, predicted class"
    converged, converged_new, soft, soft_new = (
        form_value(cells[way][1])
        for way in (classifier, f"{classifier}, soft queries")
        for cells in (everywhere, unlearned)
    )
    if hroh[1] <= max(floats, guess) or unlearned["HROH"][1] <= unlearned["float32, cosine"][full]:
        raise RuntimeError("1 byte of HROH is no longer ahead of vectors and one pass of SGD; write another sentence")
    return (
        f"**1 byte per item, learned from 10 000 labels, finds items of the same class better than the {full} bytes of "
        f"the embedding, which knows no labels**: on CLINC150 (150 intents), mAP is {form_value(hroh[1])} against "
        f"{form_value(floats)}, and {form_value(unlearned['HROH'][1])} against "
        f"{form_value(unlearned['float32, cosine'][full])} among sentences that it never learned from.\n"
        f"A predicted class is one byte too: {form_value(guess)} by one pass of stochastic gradient descent, "
        f"{form_value(_own_guess())} by HROH's own scores; more bytes carry more ({form_value(hroh[8])} with 8).\n"
        f"A `LogisticRegression` learned to convergence has {converged}, {converged_new} among new sentences, and "
        f"{soft} and {soft_new} if queries keep their probabilities, but needs all data again for every new class and "
        "cannot unlearn.\n"
    )


def _own_guess() -> float:
    """Return the mAP of the class that HROH predicts, on CLINC150."""
    _, results = results_of("clinc150", lambda run: run.hasher == "reference:hroh")
    ((value,),) = (row.values() for row in measured(results, "mean_average_precision").values())
    return value


def _published_table() -> str:
    """Compare all methods; the best code in each column is bold."""
    tables = {name: _hashers(name) for name in DATASETS}
    methods = sorted(
        {method for cells in tables.values() for method in cells},
        key=lambda method: (
            method == ASYMMETRIC,
            -_mean(cells.get(base_name(method), {}) for cells in tables.values()),
            method,
        ),
    )
    best = {
        (name, n_bits): max(row[n_bits] for method, row in cells.items() if method != ASYMMETRIC and n_bits in row)
        for name, cells in tables.items()
        for n_bits in LENGTHS
    }
    heads = [f"{title} {LENGTHS[0]}" if n == LENGTHS[0] else str(n) for title in DATASETS.values() for n in LENGTHS]
    lines = [f"| mAP at bits | {' | '.join(heads)} |", "|---|" + "---|" * len(heads)]
    for method in methods:
        values = []
        for name, cells in tables.items():
            for n_bits in LENGTHS:
                value = cells.get(method, {}).get(n_bits)
                shown = "" if value is None else form_value(value)
                values.append(f"**{shown}**" if value == best[name, n_bits] else shown)
        lines.append(f"| {_linked(method)} | {' | '.join(values)} |")
    return "\n".join([*lines, *_last_step()]) + "\n"


def _last_step() -> list[str]:
    """Say what HROH's last step gives to another method."""
    _, results = results_of("clinc150", lambda run: run.seed == 0)
    cells = measured(results, "mean_average_precision")
    plain, better, hroh = cells[RIVAL], cells.get(f"{RIVAL[:-1]}, sharpened)", {}), cells["HROH"]
    both = [n for n in sorted(better) if n in plain]
    if not both:
        return []
    before, after, ours = (" / ".join(form_value(row[n]) for n in both) for row in (plain, better, hroh))
    return [
        "",
        f"Part of this is the last step: at {_joined(both)} bits on CLINC150 (first split), {RIVAL} has {before}, and "
        f"{after} if its codes are made as HROH's are, from sharpened scores of classes. HROH has {ours}.",
    ]


def _alternatives_table() -> str:
    """Compare with what people use instead."""
    lines = [
        "| an item is stored as | bytes per item | mAP | of items not learned from | learns from labels | item by item "
        "| a new class without starting over | unlearns | gives distances |",
        "|---|---|---|---|---|---|---|---|---|",
        *(f"| {' | '.join([*cells, *WAYS[way][1:]])} |" for way, cells in _alternatives_rows("clinc150").items()),
    ]
    return "\n".join(lines) + "\n"


def _ada_table() -> str:
    """Compare the same ways on vectors of OpenAI's ada-002."""
    lines = [
        "| an item is stored as | bytes per item | mAP | of items not learned from |",
        "|---|---|---|---|",
        *(f"| {' | '.join(cells)} |" for cells in _alternatives_rows("jeopardy").values()),
    ]
    return "\n".join(lines) + "\n"


def _alternatives_rows(dataset: str) -> dict[str, list[str]]:
    """Return how an item is stored, bytes per item, mAP, and mAP of items not learned from, by way."""
    everywhere = alternatives("mAP", dataset)
    unlearned = alternatives("mAP among items not learned from", dataset)
    rows = {}
    for way in filter(everywhere.get, WAYS):
        sizes = SHOWN_BYTES.get(way, tuple(everywhere[way]))
        lengths = f", {_joined(8 * size for size in sizes)} bits" if len(sizes) > 1 else ""
        values = [" / ".join(form_value(cells[way][size]) for size in sizes) for cells in (everywhere, unlearned)]
        rows[way] = [WAYS[way][0] + lengths, _joined(sizes), *values]
    return rows


def alternatives(measure: str, dataset: str = "clinc150") -> dict[str, Sizes]:
    """Return a measure of what people use instead, by name and bytes per item."""
    found: defaultdict[str, Sizes] = defaultdict(dict)
    for row in json.loads(ALTERNATIVES.read_text())["rows"]:
        measured_as, _, size = row["meaning"].removesuffix(" bytes per item").rpartition(", ")
        measured_on, _, name = row["what"].partition(", ")
        if (measured_as, measured_on) == (measure, dataset):
            found[re.sub(r", \d+ bits$", "", name)][int(size)] = row["ratio"]
    return dict(found)


def _hashers(name: str, measure: str = "mean_average_precision") -> Cells:
    _, results = results_of(name, lambda run: run.hasher in HASHERS and not VARIANTS.search(run.method))
    return measured(results, measure)


def _mean(rows: Iterable[Mapping[int, float]]) -> float:
    values = [row[n_bits] for row in rows for n_bits in LENGTHS if n_bits in row]
    return sum(values) / len(values)


def _linked(method: str) -> str:
    name = base_name(method)
    page = name.lower().replace("-", "_")
    assert page in HASHERS
    return f"[{name}](docs/hashers/{page}.md){method.removeprefix(name)}"


def _joined(values: Iterable[int]) -> str:
    return " / ".join(map(str, values))


WIDTH, HEIGHT = 800, 470
LEFT, RIGHT, TOP, BOTTOM = 52, 776, 62, 416
HROH = "#d81b60"
RIVAL = "HMOH (8000 anchors)"
CURVES = {  # colour, width, dashes; where its name stands, relative to its last point
    "LSH": ("#8a8f98", 1.6, "", (9, 4)),
    "ITQ": ("#8c6d4f", 1.6, "", (9, 14)),
    "HCOH": ("#0072b2", 1.6, "", (9, 4)),
    RIVAL: ("#7d4cc2", 1.6, "", (9, 9)),
    ASYMMETRIC: (HROH, 1.8, "5 4", (9, -7)),
    "HROH": (HROH, 3.2, "", (9, 5)),
}
NAMES = {
    RIVAL: "HMOH with 8000 anchors, the best other method",
    "HMOH": "HMOH, the best other method",
    ASYMMETRIC: "HROH, real-valued queries",
}


def figure() -> str:
    """Draw mAP of CLINC150 against bytes per item."""
    hashers, others = _hashers("clinc150"), alternatives("mAP")
    rival = RIVAL if RIVAL in hashers else "HMOH"  # before its results are there
    rivals = [row for method, row in hashers.items() if base_name(method) != "HROH"]
    if any(row[n_bits] > hashers[rival][n_bits] for row in rivals for n_bits in row if n_bits in hashers[rival]):
        raise RuntimeError(f"{rival} is no longer the best of the others; draw another one")
    (full, floats), (guess_size, guess) = (
        next(iter(others[way].items())) for way in ("float32, cosine", "scikit-learn SGDClassifier, predicted class")
    )
    title = f"1 byte learned from labels against {full} bytes of the embedding"
    parts = [
        *svg_frame(WIDTH, HEIGHT, f"{title}: mAP on CLINC150 against bytes per item"),
        svg_text(20, 30, title, INK, size=17, weight="600"),
        svg_text(
            20,
            50,
            "mAP on CLINC150: sentences of 150 intents, 384 features each; 10 000 were learned from, with labels",
            SOFT,
        ),
    ]
    for value in (0, 0.2, 0.4, 0.6, 0.8, 1):
        parts.append(f'<path d="M{LEFT} {_y(value)}H{RIGHT}" stroke="{LINES}"/>')
        parts.append(svg_text(LEFT - 8, _y(value) + 4, f"{value:g}", SOFT, anchor="end"))
    for size in (1, 2, 4, 8, 16, 48, 384, full):
        parts.append(f'<path d="M{_x(size)} {BOTTOM}v5" stroke="{SOFT}"/>')
        parts.append(svg_text(_x(size), BOTTOM + 20, str(size), SOFT, anchor="middle"))
    parts.append(svg_text((LEFT + RIGHT) / 2, BOTTOM + 42, "bytes per item", SOFT, anchor="middle"))
    parts += _level(_x(1), floats, f"float32 vectors, {full} bytes: {form_value(floats)}", INK)
    parts += _level(_x(1), hashers["HROH"][8], f"HROH, 1 byte: {form_value(hashers['HROH'][8])}", HROH)
    for curve, (colour, width, dashes, (dx, dy)) in CURVES.items():
        method = rival if curve == RIVAL else curve
        points = [(_x(n_bits // 8), _y(value)) for n_bits, value in sorted(hashers[method].items())]
        style = f'stroke="{colour}" stroke-width="{width}"' + (f' stroke-dasharray="{dashes}"' if dashes else "")
        parts.append(f'<path d="M{"L".join(f"{x} {y}" for x, y in points)}" fill="none" {style}/>')
        hollow = f'fill="#ffffff" stroke="{colour}" stroke-width="1.5"' if dashes else f'fill="{colour}"'
        parts += [f'<circle cx="{x}" cy="{y}" r="{2.5 + width / 2}" {hollow}/>' for x, y in points]
        weight = "600" if method == "HROH" else "400"
        parts.append(svg_text(points[-1][0] + dx, points[-1][1] + dy, NAMES.get(method, method), colour, weight=weight))
    signs, rabitq = (next(iter(others[way].items())) for way in ("sign bits", "faiss RaBitQ, 1 bit per feature"))
    for size, value in ((full, floats), (guess_size, guess), signs, rabitq):
        x, y = _x(size), _y(value)
        parts.append(f'<path d="M{x - 5} {y}l5 -5l5 5l-5 5z" fill="{INK}"/>')
    parts += [
        f'<circle cx="{_x(1)}" cy="{_y(hashers["HROH"][8])}" r="9" fill="none" stroke="{HROH}" stroke-width="1.5"/>',
        svg_text(_x(signs[0]) + 9, _y(signs[1]) + 16, "sign bits", INK),
        svg_text(_x(rabitq[0]) + 10, _y(rabitq[1]) + 10, "RaBitQ", INK),
        svg_text(_x(2.1), _y(0.76), "1 byte: the class", INK),
        svg_text(_x(2.1), _y(0.76) + 16, f"by one pass of SGD, {form_value(guess)}", INK),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _level(start: float, value: float, text: str, colour: str) -> list[str]:
    """Draw a value along the figure, and say it at the right."""
    end = _x(1536)
    return [
        f'<path d="M{start} {_y(value)}H{end}" stroke="{colour}" stroke-dasharray="2 4"/>',
        svg_text(end + 5, _y(value) - 9, text, colour, anchor="end", weight="600"),
    ]


def _x(size: float) -> float:
    return round(LEFT + 14 + log2(size) / log2(1536) * (RIGHT - LEFT - 34), 1)


def _y(value: float) -> float:
    return round(BOTTOM - value * (BOTTOM - TOP), 1)
