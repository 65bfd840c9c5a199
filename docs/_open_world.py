"""The figure of the README: how well items of the same class are found where a quarter of the classes is unknown."""

from __future__ import annotations

from _learned import values
from _parts import INK, LINES, SOFT, svg_frame, svg_text

DATASETS = {"clinc150": "CLINC150, intents of text", "mnist": "MNIST, digits", "cifar10": "CIFAR-10, photos"}
ORDERS = {
    "cosine": ("cosine of the vectors", "#8a8f98"),
    "codes": ("codes, 8 bytes", "#0072b2"),
    "learned": ("learned order, the default", "#d81b60"),
}
WIDTH, HEIGHT = 800, 330
LEFT, TOP, BOTTOM, BAR, GROUP = 52, 92, 282, 58, 240


def figure() -> str:
    """Draw P@10 by data set and order."""
    found = values("decisions")
    title = "Precision of the first 10, with a quarter of the classes never learned"
    parts = [
        *svg_frame(WIDTH, HEIGHT, title),
        svg_text(20, 30, title, INK, size=17, weight="600"),
        svg_text(20, 50, "all queries, of learned classes and of others; mean of two splits", SOFT),
    ]
    for place, (name, colour) in enumerate(ORDERS.values()):
        x = 20 + 250 * place
        parts.append(f'<rect x="{x}" y="62" width="12" height="12" rx="2" fill="{colour}"/>')
        parts.append(svg_text(x + 18, 73, name, INK))
    for share in (0, 0.25, 0.5, 0.75, 1):
        parts.append(f'<path d="M{LEFT} {_y(share)}H{WIDTH - 24}" stroke="{LINES}"/>')
        parts.append(svg_text(LEFT - 8, _y(share) + 4, f"{share:g}", SOFT, anchor="end"))
    for group, (dataset, name) in enumerate(DATASETS.items()):
        start = LEFT + 30 + GROUP * group
        for place, (order, (_, colour)) in enumerate(ORDERS.items()):
            share = found[f"ranking, {dataset}, a quarter of the classes never learned, {order}"]["P@10"]
            x, top = start + (BAR + 4) * place, _y(share)
            parts.append(f'<rect x="{x}" y="{top}" width="{BAR}" height="{BOTTOM - top}" rx="3" fill="{colour}"/>')
            shown = f"{share:.3f}".removeprefix("0")
            parts.append(svg_text(x + BAR / 2, top - 6, shown, INK, anchor="middle", weight="600"))
        parts.append(svg_text(start + 1.5 * BAR + 4, BOTTOM + 24, name, INK, anchor="middle"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _y(share: float) -> float:
    return round(BOTTOM - (BOTTOM - TOP) * share, 1)
