"""Codewords of classes: the targets of supervised hashers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from onlinehash.codebooks.assignment import ClassTable, swap_for_learnability
from onlinehash.codebooks.hadamard import (
    Codebook,
    ExplicitCodebook,
    HadamardCodebook,
    RandomCodebook,
    hadamard_codewords,
    hadamard_matrix,
    hadamard_rows,
)
from onlinehash.codebooks.ladder import LadderCodebook
from onlinehash.exceptions import InvalidInputError, UnknownNameError

CODEBOOKS: dict[str, Callable[..., Codebook]] = {
    "hadamard": HadamardCodebook,
    "ladder": LadderCodebook,
    "random": RandomCodebook,
}


def make_codebook(spec: Any, n_bits: int, seed: int) -> Codebook:
    """Build a codebook from its name, or from a mapping from label to codeword.

    Examples
    --------
    >>> make_codebook("hadamard", n_bits=8, seed=0).codeword(0).shape
    (8,)
    """
    if isinstance(spec, Mapping):
        return ExplicitCodebook(spec, n_bits)
    if not isinstance(spec, str):
        raise InvalidInputError(f"codebook={spec!r} is neither a name nor a mapping from label to codeword.")
    if spec not in CODEBOOKS:
        raise UnknownNameError.among("codebook", spec, CODEBOOKS)
    return CODEBOOKS[spec](n_bits, seed=seed)


__all__ = [
    "CODEBOOKS",
    "ClassTable",
    "Codebook",
    "ExplicitCodebook",
    "HadamardCodebook",
    "LadderCodebook",
    "RandomCodebook",
    "hadamard_codewords",
    "hadamard_matrix",
    "hadamard_rows",
    "make_codebook",
    "swap_for_learnability",
]
