import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinehash.collection import order as module
from onlinehash.collection.order import IntegerOrder, StringOrder

steps = st.lists(st.tuples(st.booleans(), st.sets(st.text("ab", max_size=8), max_size=12)), max_size=25)


@settings(deadline=None)
@given(steps, st.sampled_from([2, 16, 1 << 36]))
def test_numbers_follow_the_ids_whatever_comes_and_goes(moves, step):
    order, known = StringOrder(), {}
    before, module._STEP, room, module._ROOM = module._STEP, step, module._ROOM, min(module._ROOM, step // 2)
    try:
        for add, ids in moves:
            if add:
                new = [id for id in ids if id not in known]
                old_numbers, new_numbers = order.insert(new)
                moved = dict(zip(old_numbers.tolist(), new_numbers.tolist(), strict=True))
                known = {id: moved.get(number, number) for id, number in known.items()}
                known.update(zip(new, order.numbers(new).tolist(), strict=True))
            else:
                gone = [id for id in ids if id in known]
                order.remove(gone)
                for id in gone:
                    del known[id]
            everything = sorted(known)
            numbers = order.numbers(everything)
            assert numbers.tolist() == [known[id] for id in everything]
            assert (np.diff(numbers) > 0).all()
            assert order.ids(numbers) == everything
            assert order.known(sorted(ids)) == [id in known for id in sorted(ids)]
    finally:
        module._STEP, module._ROOM = before, room


def test_ids_that_always_come_between_the_same_two_move_few_others():
    order = StringOrder()
    order.insert(["a", *(f"z{i:05}" for i in range(20_000))])
    moved = 0
    for batch in range(200):
        moved += len(order.insert([f"m{batch:04} {i:03}" for i in range(100)])[0])
    assert moved < 2 * 200 * 100


def test_integers_are_their_own_numbers():
    order = IntegerOrder()
    assert order.numbers([5, -3]).tolist() == [5, -3]
    assert order.ids(np.array([5, -3])) == [5, -3]
    assert order.known([1]) == [True]
