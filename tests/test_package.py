import subprocess
import sys

import pytest

import onlinehash


def test_every_public_name_can_be_imported_and_is_documented():
    for name in onlinehash.__all__:
        thing = getattr(onlinehash, name)
        assert name == "__version__" or thing.__doc__
    assert set(onlinehash.__all__) == set(dir(onlinehash))
    with pytest.raises(AttributeError, match="no attribute 'HCHO'"):
        onlinehash.HCHO  # noqa: B018


def test_importing_is_silent_and_loads_nothing_heavy():
    program = (
        "import sys, onlinehash; heavy = {'numba', 'sklearn', 'scipy', 'matplotlib', 'faiss', 'h5py', 'rich'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("[]\n", "")


def test_subpackages_are_reached_by_attribute():
    assert onlinehash.metrics.Ranking.__name__ == "Ranking"
