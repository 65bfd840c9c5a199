from itertools import count

import numpy as np
import psycopg
import pytest
from tests.servers.postgres import create_pgvector, postgres

from onlinehash import FlatIndex, pack_bits
from onlinehash.checks import recall
from onlinehash.checks.index import index_checks
from onlinehash.exceptions import InvalidInputError, StorageError
from onlinehash.indexes.engines import PostgresIndex

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server():
    with postgres() as running:
        yield running


@pytest.fixture
def make_index(server):
    """Makes an empty index in a table of its own."""
    made, number = [], count()

    def make(n_bits, **options):
        made.append(PostgresIndex(n_bits, server.url, table=f"codes_{next(number)}", **options))
        return made[-1]

    yield make
    for index in made:
        index.close()
        server.execute(f"DROP TABLE {index._table}")


@pytest.mark.parametrize("check", list(index_checks()), ids=lambda check: check.__name__)
def test_keeps_the_promises(make_index, check):
    check(make_index)


def filled(index, n=300, seed=0):
    """Put random codes into an index, and into one that is known to be right."""
    codes = np.random.default_rng(seed).integers(0, 2, (n, index.n_bits), np.uint8)
    twin = FlatIndex(index.n_bits)
    for some in (index, twin):
        some.upsert(pack_bits(codes), range(7, 7 + n))
    return twin


def same(found, expected):
    assert np.array_equal(found.ids, expected.ids)
    assert np.array_equal(found.distances, expected.distances)
    assert found.distances.dtype == expected.distances.dtype


@pytest.mark.parametrize("n_bits", [3, 8, 33, 64, 100])
def test_soft_distances_are_equal_to_the_bit(make_index, n_bits):
    index = make_index(n_bits)
    twin = filled(index)
    soft = np.tanh(np.random.default_rng(1).normal(size=(3, n_bits)))
    same(index.search(soft, 20, asymmetric=True), twin.search(soft, 20, asymmetric=True))
    same(
        index.search(soft, 20, ids=[9, 10, 4000], asymmetric=True),
        twin.search(soft, 20, ids=[9, 10, 4000], asymmetric=True),
    )


def test_the_table_stays_and_is_shared(make_index, server):
    index = make_index(16)
    twin = filled(index)
    with PostgresIndex(16, server.url, table=index._table.strip('"')) as other:
        assert repr(other) == "<PostgresIndex of 300 codes of 16 bits>"
        assert np.array_equal(other.codes, twin.codes)
        other.delete([7])
    assert 7 not in index
    with pytest.raises(InvalidInputError, match=r"has codes of bit\(16\), not of 24 bits; name another table"):
        PostgresIndex(24, server.url, table=index._table.strip('"'))


def test_what_does_not_work_is_told(make_index, server):
    with pytest.raises(InvalidInputError, match="letters, digits and _"):
        PostgresIndex(8, server.url, table='a"b')
    with pytest.raises(InvalidInputError, match="CREATE EXTENSION vector"):
        PostgresIndex(8, server.url, approximate=True)
    with pytest.raises(StorageError, match="does not exist"):
        PostgresIndex(8, server.url_of("nowhere"))
    index = make_index(8)
    server.execute("SELECT pg_terminate_backend(%s, 30000)", index._connection.info.backend_pid)
    with pytest.raises(StorageError, match="has lost its server"):
        index.search(np.zeros((1, 8 // 8), np.uint8), 1)


STAND_IN = """
CREATE FUNCTION apart(bit, bit) RETURNS float8 IMMUTABLE LANGUAGE sql AS 'SELECT bit_count($1 # $2)::float8';
CREATE OPERATOR <~> (FUNCTION = apart, LEFTARG = bit, RIGHTARG = bit)
"""


def test_pgvector_is_asked_as_it_wants_to_be(server):
    """Not pgvector itself: its operator, by another function."""
    server.execute("CREATE DATABASE vectors")
    with psycopg.connect(server.url_of("vectors")) as connection:
        connection.execute(STAND_IN)
    with PostgresIndex(12, server.url_of("vectors")) as index:
        twin = filled(index)
        queries = twin.codes[:3]
        same(index.search(queries, 10), twin.search(queries, 10))
        assert "USING hnsw (code" in index._scan.pgvector.make_index("codes")
        index._scan = index._scan._replace(approximate=True)
        assert np.array_equal(index.search(queries, 10).distances, twin.search(queries, 10).distances)
        assert index.search(queries, 1000).ids.shape == (3, 300)
        same(index.search(queries, 10, ids=[8, 9]), twin.search(queries, 10, ids=[8, 9]))


def test_with_pgvector_it_is_exact_or_nearly(server):
    codes = clustered(3000)
    oracle = FlatIndex(64)
    oracle.upsert(codes[:2900])
    url = create_pgvector(server, "with_pgvector")
    for approximate in (False, True):
        with PostgresIndex(64, url, table=f"codes_{approximate}", approximate=approximate) as index:
            index.upsert(codes[:2900])
            found, expected = index.search(codes[2900:], 10), oracle.search(codes[2900:], 10)
            if approximate:
                assert recall(index, oracle, codes[2900:], 10) > 0.95
            else:
                assert np.array_equal(found.ids, expected.ids)
            assert np.array_equal(index.range_search(codes[:1], 9)[0].ids, oracle.range_search(codes[:1], 9)[0].ids)


def clustered(n_codes):
    rng = np.random.default_rng(0)
    centres = rng.integers(0, 2, (100, 64), dtype=np.uint8)
    return pack_bits(centres[rng.integers(0, 100, n_codes)] ^ (rng.random((n_codes, 64)) < 0.1))
