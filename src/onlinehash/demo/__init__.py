"""Demonstrations on real data, for the command line and the service."""
