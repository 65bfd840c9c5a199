"""Indexes over packed codes."""

from onlinehash.indexes.flat import FlatIndex

__all__ = ["FlatIndex"]
