"""Adapters to other libraries, one per module."""
