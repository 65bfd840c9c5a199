"""Packed binary codes and the distances between them."""

from onlinehash.codes.distances import asymmetric_distances, hamming_distances
from onlinehash.codes.packing import code_width, pack_bits, pack_signs, unpack_bits, unpack_signs

__all__ = [
    "asymmetric_distances",
    "code_width",
    "hamming_distances",
    "pack_bits",
    "pack_signs",
    "unpack_bits",
    "unpack_signs",
]
