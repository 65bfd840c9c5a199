"""A codebook given by the user."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import numpy as np
from numpy.typing import ArrayLike

from onlinehash._validation import check_n_bits, plain_label
from onlinehash.exceptions import InvalidInputError, InvalidLabelsError
from onlinehash.types import Signs


class ExplicitCodebook:
    """Look codewords up in a mapping from label to -1 and +1.

    Examples
    --------
    >>> codebook = ExplicitCodebook({"cat": [1, 1], "dog": [1, -1]}, n_bits=2)
    >>> codebook.codeword(0, "dog").tolist()
    [1, -1]
    """

    def __init__(self, mapping: Mapping[int | str, ArrayLike], n_bits: int) -> None:
        self.n_bits = check_n_bits(n_bits)
        self._words: dict[Hashable, Signs] = {
            plain_label(label, "codebook"): _check_word(label, word, self.n_bits) for label, word in mapping.items()
        }
        if not self._words:
            raise InvalidInputError("codebook is an empty mapping; give every class a codeword.")

    def codeword(self, index: int, label: Hashable = None) -> Signs:
        """Return the codeword of ``label``."""
        try:
            return self._words[label]
        except KeyError:
            known = ", ".join(repr(name) for name in list(self._words)[:10])
            more = ", ..." if len(self._words) > 10 else ""
            raise InvalidLabelsError(
                f"The codebook has no codeword for label {label!r}; it holds {len(self._words)} classes: "
                f"{known}{more}. Add it to the mapping, or use codebook='hadamard', which grows."
            ) from None


def _check_word(label: Hashable, word: ArrayLike, n_bits: int) -> Signs:
    signs = np.asarray(word)
    if signs.shape != (n_bits,):
        raise InvalidInputError(
            f"The codeword of {label!r} has shape {signs.shape}; n_bits={n_bits} needs ({n_bits},)."
        )
    if not np.isin(signs, (-1, 1)).all():
        raise InvalidInputError(f"The codeword of {label!r} holds values other than -1 and +1.")
    return signs.astype(np.int8)
