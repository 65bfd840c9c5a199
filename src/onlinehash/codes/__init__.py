"""Packed binary codes and the distances between them."""

from onlinehash.codes.hamming import hamming_distances
from onlinehash.codes.packing import code_width, pack_bits, pack_signs, unpack_bits, unpack_signs

__all__ = ["code_width", "hamming_distances", "pack_bits", "pack_signs", "unpack_bits", "unpack_signs"]
