"""Slow, obvious versions of every kernel: what the fast ones are checked against."""
