"""Checks that prove a hasher keeps the promises of the contract."""

from onlinehash.checks.hasher import check_hasher, hasher_checks

__all__ = ["check_hasher", "hasher_checks"]
