"""The figure of HROH's page: how many bits the noise of the class scores gets wrong, linear and sharpened."""

from __future__ import annotations

from math import log2

import numpy as np
from _parts import INK, LINES, SOFT, svg_frame, svg_text

from onlinehash import Encoder
from onlinehash.hashers._class_bits import choose_sharpness

N_BITS, N_ROWS, NOISE = 32, 400, 0.15
CLASSES = [2**power for power in range(1, 11)]
LEFT, RIGHT, TOP, BOTTOM = 58, 560, 70, 300


def wrong_bits(n_classes: int, sharpness: float) -> float:
    """Return the share of bits that differ from the codeword, where a row's own class scores 1 and all others 0."""
    rng = np.random.default_rng(n_classes)
    words = rng.choice(np.array([-1, 1], np.int8), (n_classes, N_BITS))
    own = rng.integers(0, n_classes, N_ROWS)
    scores = np.eye(n_classes)[own] + NOISE * rng.standard_normal((N_ROWS, n_classes))
    values = Encoder(np.eye(n_classes), codewords=words, sharpness=sharpness).project(scores)
    return float((values * words[own] < 0).mean())


def figure() -> str:
    """Draw the share of wrong bits against the number of classes."""
    title = "Every class adds noise to every bit, unless high scores outweigh low ones"
    parts = [
        *svg_frame(640, 350, title),
        svg_text(20, 28, title, INK, weight="600"),
        svg_text(20, 48, f"wrong bits of {N_BITS}; scores are 1 and 0 plus Gaussian noise of {NOISE:g}", SOFT),
        svg_text((LEFT + RIGHT) / 2, 340, "classes", SOFT, anchor="middle"),
    ]
    for share in (0.0, 0.1, 0.2, 0.3, 0.4):
        parts.append(f'<path d="M{LEFT} {_y(share)}H{RIGHT}" stroke="{LINES}"/>')
        parts.append(svg_text(LEFT - 8, _y(share) + 4, f"{100 * share:.0f} %", SOFT, anchor="end"))
    parts += [svg_text(_x(n), BOTTOM + 20, str(n), SOFT, anchor="middle") for n in CLASSES]
    for name, colour, linear in (("sign(s T)", "#59636e", True), ("sign(f(s) T)", "#d81b60", False)):
        shares = [wrong_bits(n, 0.0 if linear else choose_sharpness(n, N_BITS)) for n in CLASSES]
        points = [(_x(n), _y(share)) for n, share in zip(CLASSES, shares, strict=True)]
        line = "L".join(f"{x} {y}" for x, y in points)
        parts.append(f'<path d="M{line}" fill="none" stroke="{colour}" stroke-width="2.4"/>')
        parts += [f'<circle cx="{x}" cy="{y}" r="3.6" fill="{colour}"/>' for x, y in points]
        x, y = points[-1]
        parts.append(svg_text(x + 10, y + (4 if linear else -8), name, colour, weight="600"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _x(n_classes: int) -> float:
    return round(LEFT + 20 + (log2(n_classes) - 1) / 9 * (RIGHT - LEFT - 40), 1)


def _y(share: float) -> float:
    return round(BOTTOM - share / 0.45 * (BOTTOM - TOP), 1)
