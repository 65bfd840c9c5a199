"""Files of hashers and encoders: damage is found, other kinds and versions are named."""

import numpy as np
import pytest

import onlinehash as oh
from onlinehash import HCOH, HMOH, HROH, Collection, Encoder, FlatIndex, MIHash, load_hasher
from onlinehash._internal.files import pack_arrays, read_arrays
from onlinehash.exceptions import DataNotFoundError, FileFormatError, InvalidInputError, StorageError, UnknownNameError

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(300, 6)), RNG.integers(0, 3, 300)


def flipped(content, n):
    """Yield copies with one byte changed: many in the head, where they could mean something else, and anywhere."""
    head = 8 + int.from_bytes(content[:8], "little")
    places = np.concatenate([RNG.integers(0, head, n // 2), RNG.integers(0, len(content), n - n // 2)])
    for place in places.tolist():
        damaged = bytearray(content)
        damaged[place] ^= int(RNG.integers(1, 256))
        yield bytes(damaged)


@pytest.mark.parametrize(
    "hasher",
    [HCOH(8, batch_size=7), HMOH(8, n_anchors=10), MIHash(8, reservoir_size=30), HROH(8, n_components=20)],
    ids=lambda hasher: hasher.name,
)
def test_no_flipped_byte_of_a_hasher_goes_unnoticed(hasher):
    content = hasher.set_params(random_state=0).fit(X, Y).to_bytes()
    for damaged in flipped(content, 300):
        with pytest.raises(FileFormatError, match="The stored state is damaged"):
            load_hasher(damaged)
    assert load_hasher(content).n_samples_seen_ == 300


def test_no_flipped_byte_of_an_encoder_goes_unnoticed(tmp_path):
    path = tmp_path / "e.oh"
    HROH(8, n_components=20, random_state=0).fit(X, Y).snapshot().save(path)
    content = path.read_bytes()
    for damaged in flipped(content, 300):
        path.write_bytes(damaged)
        with pytest.raises(FileFormatError, match=r"e\.oh is damaged"):
            Encoder.load(path)
    damaged = bytearray(content)
    damaged[-3] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(
        FileFormatError, match=r"e\.oh is damaged: its checksum is wrong. Restore it from a copy, or learn again."
    ):
        Encoder.load(path)


def test_a_memory_mapped_index_is_verified_when_it_is_opened(tmp_path):
    index = FlatIndex(8)
    index.upsert(RNG.integers(0, 256, (100, 1), np.uint8))
    index.save(tmp_path / "i.ohi")
    content = bytearray((tmp_path / "i.ohi").read_bytes())
    content[-5] ^= 1
    (tmp_path / "i.ohi").write_bytes(content)
    for mmap in (False, True):
        with pytest.raises(FileFormatError, match="checksum is wrong"):
            FlatIndex.load(tmp_path / "i.ohi", mmap=mmap)


def test_a_damaged_state_in_a_collection_is_told(tmp_path):
    import sqlite3
    from contextlib import closing

    with Collection.open(tmp_path / "items.oh", HCOH(8, random_state=0)) as items:
        items.upsert(range(300), X, Y)
    with closing(sqlite3.connect(tmp_path / "items.oh")) as file, file:
        state = bytearray(file.execute("SELECT content FROM state").fetchone()[0])
        state[-9] ^= 1
        file.execute("UPDATE state SET content = ?", [bytes(state)])
    with (
        pytest.raises(FileFormatError, match="is damaged: the state of the hasher does not match"),
        Collection.open(tmp_path / "items.oh") as items,
    ):
        items.upsert(1000, X[0], 1)


def test_equal_hashers_are_equal_files():
    one, other = (HROH(8, n_components=20, random_state=0).fit(X, Y) for _ in range(2))
    assert one.to_bytes() == other.to_bytes()


def test_a_label_of_zeros_is_not_taken_for_the_checksum():
    names = np.array(["0" * 64, "b", "c"])[Y]
    hasher = HCOH(8, random_state=0).fit(X, names)
    assert load_hasher(hasher.to_bytes()).classes_.tolist() == hasher.classes_.tolist()


def test_the_wrong_kind_is_named_with_the_right_way_to_open_it(tmp_path):
    hasher = HCOH(8, random_state=0).fit(X, Y)
    hasher.save(tmp_path / "model.oh")
    hasher.snapshot().save(tmp_path / "encoder.oh")
    Collection.open(tmp_path / "items.oh", HCOH(8)).close()
    index = FlatIndex(8)
    index.save(tmp_path / "index.oh")
    for load, name, message in [
        (Encoder.load, "model.oh", "model.oh holds a hasher, not an encoder; load it with onlinehash.load_hasher"),
        (load_hasher, "encoder.oh", "encoder.oh holds an encoder, not a hasher; load it with onlinehash.Encoder.load"),
        (load_hasher, "items.oh", "items.oh holds a collection, not a hasher; open it with onlinehash.Collection.open"),
        (
            Encoder.load,
            "items.oh",
            "items.oh holds a collection, not an encoder; open it with onlinehash.Collection.open",
        ),
        (FlatIndex.load, "items.oh", "items.oh holds a collection, not an index; open it with"),
        (Collection.open, "model.oh", "model.oh holds a hasher, not a collection; load it with onlinehash.load_hasher"),
        (Collection.open, "encoder.oh", "encoder.oh holds an encoder, not a collection; load it with"),
    ]:
        with pytest.raises(FileFormatError, match=message):
            load(tmp_path / name)


def test_what_is_no_file_of_ours_is_refused(tmp_path):
    (tmp_path / "letter.oh").write_text("Dear reader")
    with pytest.raises(FileFormatError, match=r"letter.oh is damaged, or not a file that onlinehash wrote"):
        load_hasher(tmp_path / "letter.oh")
    for nothing in ("none.oh", ""):
        with pytest.raises(DataNotFoundError, match="There is no file"):
            load_hasher(tmp_path / nothing)


def test_a_file_with_other_parameters_is_refused_by_name():
    def with_header(**changes):
        header, arrays = read_arrays(HCOH(8, random_state=0).fit(X, Y).to_bytes(), "hasher", 1)
        header = {id: value for id, value in (header | changes).items() if id not in ("kind", "layout", "checksum")}
        return pack_arrays("hasher", 1, {id: value for id, value in header.items() if value is not None}, arrays)

    params = {"n_bits": 8} | {name: getattr(HCOH(8), name) for name in HCOH._get_param_names()}
    for changes, message in [
        ({"params": params | {"speed": 3}}, "has an unknown parameter 'speed' of HCOH"),
        ({"params": {"n_bits": 8}}, "has no parameter 'batch_size' of HCOH"),
        ({"params": None}, "does not hold a complete hasher"),
        ({"counters": {}}, "does not hold a complete hasher"),
        ({"params": params | {"n_bits": 9}}, "does not hold a complete hasher"),
        ({"method": "none"}, "The hasher 'none' is not registered here; import the module"),
        ({"method": None}, "The hasher None is not registered here"),
    ]:
        with pytest.raises(FileFormatError, match=message):
            load_hasher(with_header(**changes))


def test_saving_where_nothing_can_be_written_is_told(tmp_path):
    hasher = HCOH(8, random_state=0).fit(X, Y)
    for thing in (hasher, hasher.snapshot()):
        with pytest.raises(DataNotFoundError, match=r"There is no folder .*none to write a.oh to; make it first"):
            thing.save(tmp_path / "none" / "a.oh")
        with pytest.raises(StorageError, match="is a folder; name a file in it"):
            thing.save(tmp_path)
    assert not list(tmp_path.iterdir())


def test_what_is_not_a_name_is_no_hasher():
    with pytest.raises(UnknownNameError, match=r"None is not the name of a hasher. Known: adapthash"):
        oh.make_hasher(None)
    with pytest.raises(InvalidInputError, match="merge takes another HROH, not HCOH"):
        HROH(8, n_components=20, random_state=0).fit(X, Y).merge(HCOH(8).fit(X, Y))
