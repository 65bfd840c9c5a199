"""Checks of user input: one rule and one wording for each kind of input, before anything changes."""

from onlinehash._validation.codes import check_codes, check_query_values, check_same_width
from onlinehash._validation.features import check_features, check_finite, precision_of
from onlinehash._validation.labels import check_ids, check_labels, check_targets, plain_label
from onlinehash._validation.parameters import (
    check_choice,
    check_n_bits,
    check_non_negative_int,
    check_positive,
    check_positive_int,
    check_process,
    is_number,
)

__all__ = [
    "check_choice",
    "check_codes",
    "check_features",
    "check_finite",
    "check_ids",
    "check_labels",
    "check_n_bits",
    "check_non_negative_int",
    "check_positive",
    "check_positive_int",
    "check_process",
    "check_query_values",
    "check_same_width",
    "check_targets",
    "is_number",
    "plain_label",
    "precision_of",
]
