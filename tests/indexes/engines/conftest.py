import pytest


@pytest.fixture
def few_widths(monkeypatch):
    """Check the narrowest and the widest codes only: engines are slow, and FlatIndex is checked with all."""
    monkeypatch.setattr("onlinehash.checks.index._N_BITS", (5, 72))
