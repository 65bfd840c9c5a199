from __future__ import annotations

import json
from base64 import b64encode

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from onlinehash.exceptions import InvalidInputError
from onlinehash.streams.message import read_message
from onlinehash.tables import read
from onlinehash.tables.columns import USUAL

VECTORS = arrays(np.dtype("<f4"), st.integers(1, 5), elements=st.floats(-1e6, 1e6, width=32))
LABELS = st.none() | st.integers(-5, 5) | st.text() | st.lists(st.integers(0, 5))


@given(st.integers() | st.text(min_size=1), VECTORS, LABELS)
def test_all_ways_to_write_a_vector_mean_the_same(id, vector, labels):
    plain = {"id": id, "labels": labels, "payload": {"n": 1}}
    listed = read_message(json.dumps(plain | {"vectors": vector.tolist()}).encode())
    encoded = read_message(json.dumps(plain | {"vectors": b64encode(vector).decode()}).encode())
    fields = {name: json.dumps(value).encode() for name, value in plain.items()}
    raw = read_message(fields | {"vectors": vector.tobytes()})
    for change in (listed, encoded, raw):
        assert (change.id, change.labels, change.payload) == (id, labels, {"n": 1})
        np.testing.assert_array_equal(change.vectors, vector)


def test_fields_are_json_or_else_text():
    fields = {"vectors": b"[1, 2.5]", "label": b"shoe", "payload": b'{"a": 1}'}
    assert read_message({"id": b"17", **fields}).id == 17
    assert read_message({"id": b'"17"', **fields}).id == "17"
    change = read_message({"id": b"shoe-7", **fields})
    assert (change.id, change.labels, change.payload) == ("shoe-7", "shoe", {"a": 1})
    assert change.vectors.tolist() == [1, 2.5]


@pytest.mark.parametrize(
    ("role", "name"), [(role, name) for role, names in USUAL.items() for name in (*names, names[0].upper())]
)
def test_fields_have_the_names_that_columns_of_files_have(tmp_path, role, name):
    entry = {"id": "shoe-7", "vectors": [0.5, 2.0], "labels": ["shoe", "red"], "payload": {"n": 1}}
    entry[name] = entry.pop(role)
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(entry))
    (chunk,) = read(path)
    change = read_message(json.dumps(entry).encode())
    assert (chunk.ids, chunk.labels, chunk.payloads) == ([change.id], [change.labels], [change.payload])
    assert chunk.vectors.tolist() == [change.vectors.tolist()] == [[0.5, 2.0]]
    assert (change.id, change.labels, change.payload) == ("shoe-7", ["shoe", "red"], {"n": 1})


def test_two_fields_that_may_be_the_id_are_refused_as_in_files():
    with pytest.raises(InvalidInputError, match="columns id, key, and each may be the ids; send one of them"):
        read_message(b'{"id": 1, "key": 2, "vectors": [1]}')


@pytest.mark.parametrize("deleted", [b"1", b"true", True, 1])
def test_a_deletion_needs_no_vector(deleted):
    assert read_message({"id": b"7", "deleted": deleted}).vectors is None


@pytest.mark.parametrize("deleted", [b"0", b"false", False, None])
def test_what_is_not_deleted_is_stored(deleted):
    assert read_message({"id": b"7", "vectors": b"[1]", "deleted": deleted}).vectors is not None


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty"),
        ({}, "empty"),
        (b"{", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"\xff", "not JSON"),
        (b"[1, 2]", "not a JSON object"),
        (b'{"vectors": [1]}', "The id is None"),
        (b'{"id": 1.5, "vectors": [1]}', "The id is 1.5"),
        (b'{"id": true, "vectors": [1]}', "The id is True"),
        (b'{"id": [1], "vectors": [1]}', "The id is [1]"),
        (b'{"id": 1}', "There is no 'vectors'"),
        (b'{"id": 1, "vectors": []}', "not a list of numbers"),
        (b'{"id": 1, "vectors": [[1]]}', "not a list of numbers"),
        (b'{"id": 1, "vectors": ["a"]}', "not a list of numbers"),
        (b'{"id": 1, "vectors": {"a": 1}}', "not a list of numbers"),
        (b'{"id": 1, "vectors": "???"}', "is not base64"),
        (b'{"id": 1, "vectors": "AAA="}', "2 bytes; float32 takes 4"),
        (b'{"id": 1, "vectors": [1], "label": 1.5}', "The labels are 1.5"),
        (b'{"id": 1, "vectors": [1], "label": {}}', "The labels are {}"),
        (b'{"id": 1, "vectors": [1], "label": [["a"]]}', "The labels are [['a']]"),
        ({"id": b"\xff", "vectors": b"[1]"}, "neither JSON nor UTF-8"),
        ({"id": b"1", "vectors": b"abc"}, "3 bytes; float32 takes 4"),
    ],
)
def test_what_cannot_be_read_is_refused(content, said):
    with pytest.raises(InvalidInputError) as error:
        read_message(content)
    assert said in str(error.value)
