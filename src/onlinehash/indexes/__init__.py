"""Indexes over packed codes: our own here, those of other engines in :mod:`onlinehash.indexes.engines`."""

from onlinehash.indexes import engines as engines
from onlinehash.indexes.class_lists import ClassListIndex
from onlinehash.indexes.flat import FlatIndex
from onlinehash.indexes.index import Index

__all__ = ["ClassListIndex", "FlatIndex", "Index"]
