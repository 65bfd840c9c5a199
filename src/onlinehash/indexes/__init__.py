"""Indexes over packed codes."""

from onlinehash.indexes.buckets import BucketIndex
from onlinehash.indexes.flat import FlatIndex

__all__ = ["BucketIndex", "FlatIndex"]
