"""Indexes over packed codes: our own here, those of other engines in :mod:`onlinehash.indexes.engines`."""

from onlinehash.indexes import engines as engines
from onlinehash.indexes.adaptive import AdaptiveIndex
from onlinehash.indexes.buckets import BucketIndex
from onlinehash.indexes.flat import FlatIndex
from onlinehash.indexes.index import Index

__all__ = ["AdaptiveIndex", "BucketIndex", "FlatIndex", "Index"]
