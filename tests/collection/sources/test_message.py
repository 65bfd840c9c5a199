from __future__ import annotations

import json
from base64 import b64encode

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from onlinehash.collection.sources.message import read_message
from onlinehash.exceptions import InvalidInputError

VECTORS = arrays(np.dtype("<f4"), st.integers(1, 5), elements=st.floats(-1e6, 1e6, width=32))
LABELS = st.none() | st.integers(-5, 5) | st.text() | st.lists(st.integers(0, 5))


@given(st.integers() | st.text(min_size=1), VECTORS, LABELS)
def test_all_ways_to_write_a_vector_mean_the_same(key, vector, labels):
    plain = {"key": key, "labels": labels, "payload": {"n": 1}}
    listed = read_message(json.dumps(plain | {"vector": vector.tolist()}).encode())
    encoded = read_message(json.dumps(plain | {"vector": b64encode(vector).decode()}).encode())
    fields = {name: json.dumps(value).encode() for name, value in plain.items()}
    raw = read_message(fields | {"vector": vector.tobytes()})
    for change in (listed, encoded, raw):
        assert (change.key, change.labels, change.payload) == (key, labels, {"n": 1})
        np.testing.assert_array_equal(change.vector, vector)


def test_fields_are_json_or_else_text():
    fields = {"vector": b"[1, 2.5]", "label": b"shoe", "payload": b'{"a": 1}'}
    assert read_message({"key": b"17", **fields}).key == 17
    assert read_message({"key": b'"17"', **fields}).key == "17"
    change = read_message({"key": b"shoe-7", **fields})
    assert (change.key, change.labels, change.payload) == ("shoe-7", "shoe", {"a": 1})
    assert change.vector.tolist() == [1, 2.5]


@pytest.mark.parametrize("deleted", [b"1", b"true", True, 1])
def test_a_deletion_needs_no_vector(deleted):
    assert read_message({"key": b"7", "deleted": deleted}).vector is None


@pytest.mark.parametrize("deleted", [b"0", b"false", False, None])
def test_what_is_not_deleted_is_stored(deleted):
    assert read_message({"key": b"7", "vector": b"[1]", "deleted": deleted}).vector is not None


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty"),
        ({}, "empty"),
        (b"{", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"\xff", "not JSON"),
        (b"[1, 2]", "not a JSON object"),
        (b'{"vector": [1]}', "The key is None"),
        (b'{"key": 1.5, "vector": [1]}', "The key is 1.5"),
        (b'{"key": true, "vector": [1]}', "The key is True"),
        (b'{"key": [1], "vector": [1]}', "The key is [1]"),
        (b'{"key": 1}', "There is no 'vector'"),
        (b'{"key": 1, "vector": []}', "not a list of numbers"),
        (b'{"key": 1, "vector": [[1]]}', "not a list of numbers"),
        (b'{"key": 1, "vector": ["a"]}', "not a list of numbers"),
        (b'{"key": 1, "vector": {"a": 1}}', "not a list of numbers"),
        (b'{"key": 1, "vector": "???"}', "is not base64"),
        (b'{"key": 1, "vector": "AAA="}', "2 bytes; float32 takes 4"),
        (b'{"key": 1, "vector": [1], "label": 1.5}', "The labels are 1.5"),
        (b'{"key": 1, "vector": [1], "label": {}}', "The labels are {}"),
        (b'{"key": 1, "vector": [1], "label": [["a"]]}', "The labels are [['a']]"),
        ({"key": b"\xff", "vector": b"[1]"}, "neither JSON nor UTF-8"),
        ({"key": b"1", "vector": b"abc"}, "3 bytes; float32 takes 4"),
    ],
)
def test_what_cannot_be_read_is_refused(content, said):
    with pytest.raises(InvalidInputError) as error:
        read_message(content)
    assert said in str(error.value)
