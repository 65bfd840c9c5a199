import numpy as np
import pytest

from onlinehash.collection import arrivals
from onlinehash.collection.arrivals import Arrivals


@pytest.mark.parametrize("n_hashes", [10**9, 40, 1])
@pytest.mark.parametrize("n_first", [0, 8, 200])
def test_string_ids_are_found_as_in_a_dict(monkeypatch, n_first, n_hashes):
    """Also those whose hashes are the same."""
    monkeypatch.setattr(arrivals, "_MANY", 8)
    monkeypatch.setattr(arrivals, "_LEAST", 16)
    monkeypatch.setattr(arrivals, "_hashes", lambda ids: np.array([sum(map(ord, id)) % n_hashes for id in ids], int))
    rng = np.random.default_rng(0)
    table, known, seq = Arrivals(), {}, 0
    for step in range(60):
        size = n_first if not step else rng.integers(1, 6)
        ids = [f"{i:03x}" for i in rng.choice(300, size, replace=False)]
        if step % 3 == 2:
            expected = [known.pop(id) for id in ids if id in known]
            assert table.delete(ids).tolist() == sorted(expected)
        else:
            new = np.arange(seq + 1, seq + size + 1)
            assert table.put(ids, new).tolist() == sorted(known[id] for id in ids if id in known)
            known |= dict(zip(ids, new.tolist(), strict=True))
            seq += size
        everything = [f"{i:03x}" for i in range(300)]
        assert table.seqs(everything).tolist() == [known[id] for id in everything if id in known]
        assert len(table) == len(known)
        assert table.ids(table.all_seqs()) == sorted(known, key=known.__getitem__)
