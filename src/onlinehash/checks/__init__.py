"""Checks that prove a hasher or an index keeps the promises of its contract."""

from onlinehash.checks.hasher import check_hasher, hasher_checks
from onlinehash.checks.index import check_index, index_checks, recall

__all__ = ["check_hasher", "check_index", "hasher_checks", "index_checks", "recall"]
