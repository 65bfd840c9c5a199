"""Decisions over HTTP: the answers of Python, and one sentence for what cannot be decided."""

import asyncio

import httpx
import numpy as np
import pytest

from onlinehash import HROH, LSH, Collection, load_dataset
from onlinehash.client import AsyncClient, Client, ServiceError
from onlinehash.exceptions import InvalidInputError, OverLimitError, UnknownIdError
from onlinehash.service import ApiKeys, Limits, serve_in_thread

pytestmark = pytest.mark.slow

X, Y = load_dataset("digits").split().stream
LABELS = [int(label) if row < 600 else None for row, label in enumerate(Y[:700])]
LABELS[7] = (LABELS[7] + 1) % 10
QUERIES = X[1000:1150]


def make_digits(path, **settings):
    hasher = HROH(64, general_bits=32, n_components=128, random_state=0)
    collection = Collection.open(path, hasher, "manual", **settings)
    collection.upsert(range(700), X[:700], LABELS)
    collection.refresh()
    return collection


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """A served collection that is not changed, and its address."""
    with make_digits(tmp_path_factory.mktemp("digits") / "digits.oh") as collection, serve_in_thread(collection) as url:
        yield collection, url


@pytest.mark.parametrize(
    "options", [{}, {"max_error": 0.2, "n_neighbours": 0}, {"max_error": 0.01, "unknown_share": 0.3}], ids=str
)
def test_classify_is_that_of_python(digits, options):
    collection, url = digits
    with Client(url) as client:
        some, many = client.classify(QUERIES[:50], **options), client.classify(QUERIES, **options)
        assert some == collection.classify(QUERIES[:50], **options)
        assert [one.label for one in many] == [one.label for one in collection.classify(QUERIES, **options)]
        one = client.classify(QUERIES[0], **options)
    assert one == collection.classify(QUERIES[0], **options)
    assert (type(one.alternatives[0]), type(one.alternatives[0][0])) == (tuple, int)

    async def ask():
        async with AsyncClient(url) as other:
            return await asyncio.gather(other.classify(QUERIES[0], **options), other.suspects(2), other.review(2))

    assert asyncio.run(ask()) == [one, collection.suspects(2), collection.review(2)]


def test_suspects_and_review_are_those_of_python(digits):
    collection, url = digits
    with Client(url) as client:
        assert 7 in [one.id for one in client.suspects(5)]
        assert client.suspects() == collection.suspects()
        wrong = collection.suspects(1)[0]
        assert client.suspects(2, labels=wrong.label) == collection.suspects(2, labels=wrong.label)
        for by in ("uncertain", "unknown", "diverse"):
            assert client.review(4, by=by) == collection.review(4, by=by)


@pytest.fixture(scope="module", params=["memory", "faiss"])
def by_engine(request, tmp_path_factory, digits):
    """A served collection by a search engine, and its address."""
    if request.param == "memory":
        yield digits
        return
    pytest.importorskip("faiss")
    path = tmp_path_factory.mktemp("digits") / "digits.oh"
    with make_digits(path, search=request.param) as collection, serve_in_thread(collection) as url:
        yield collection, url


@pytest.mark.parametrize(
    "options", [{}, *({"rescore": rule} for rule in ("auto", "learned", "cosine", "l2", None))], ids=str
)
def test_a_search_ranks_alike_in_python_and_over_http(digits, by_engine, options):
    collection, url = by_engine
    expected = digits[0].search(QUERIES[:30], 5, **options)
    with Client(url) as client:
        found = client.search(QUERIES[:30], 5, **options)
        own = client.search_by_id(3, 4, **options)
    assert found.ids == collection.search(QUERIES[:30], 5, **options).ids == expected.ids
    np.testing.assert_allclose(found.distances, expected.distances, atol=1e-5)  # batches round differently
    assert own.ids == [id for id in collection.search(X[3], 5, **options).ids if id != 3][:4]
    body = {"vectors": QUERIES[:3].tolist(), "k": 5, **options}
    assert httpx.post(f"{url}/api/v1/search", json=body).json()["ids"] == expected.ids[:3]


def test_links_and_labels_change_as_in_python(tmp_path):
    with (
        make_digits(tmp_path / "served.oh") as served,
        make_digits(tmp_path / "plain.oh") as plain,
        serve_in_thread(served) as url,
        Client(url) as client,
    ):
        for collection in (client, plain):
            assert collection.link([600, 601], checkpoint={"at": 1}) == -1_000_000_001
            assert collection.link([601, 0]) == LABELS[0]
            collection.unlink([600])
            assert collection.merge_labels(8, 9) == LABELS.count(8)
            assert collection.rename_label(9, 89, checkpoint={"at": 2}) == LABELS.count(8) + LABELS.count(9)
            assert collection.checkpoint("at") == 2
        assert client.label_counts() == plain.label_counts()
        assert [item.labels for item in client.get([600, 601])] == [None, LABELS[0]]
        served.refresh()
        plain.refresh()
        assert client.classify(QUERIES[:20]) == plain.classify(QUERIES[:20])


def test_a_change_whose_answer_was_lost_is_applied_once(tmp_path):
    with make_digits(tmp_path / "digits.oh") as collection, serve_in_thread(collection) as url:
        for path, body in (
            ("/merge_labels", {"label": 8, "into": 9}),
            ("/rename_label", {"label": 7, "to": 70}),
            ("/link", {"ids": [600, 601]}),
            ("/unlink", {"ids": [601]}),
        ):
            headers = {"Idempotency-Key": f"key of {path}"}
            first, second = (httpx.post(f"{url}/api/v1{path}", json=body, headers=headers) for _ in range(2))
            assert first.status_code == 200, first.text
            assert first.json() == second.json()
            assert first.json()["changed"] > 0
        assert collection.label_counts()[70] == LABELS.count(7)


def test_a_read_key_decides_but_does_not_relabel(digits):
    collection, _ = digits
    keys = ApiKeys.of(["a-key-that-only-reads"], ["a-key-that-writes-too"])
    with serve_in_thread(collection, keys=keys) as url, Client(url, "a-key-that-only-reads") as reader:
        assert reader.classify(QUERIES[0]).known
        assert reader.suspects(1) and reader.review(1)
        for change in (
            lambda: reader.link([1, 2]),
            lambda: reader.unlink(1),
            lambda: reader.merge_labels(1, 2),
            lambda: reader.rename_label(1, 11),
        ):
            with pytest.raises(ServiceError, match="only reads"):
                change()


def test_limits_and_deadlines_hold_for_decisions(digits):
    collection, _ = digits
    limits = Limits(max_batch_size=40, max_k=5)
    with serve_in_thread(collection, limits=limits) as url, Client(url, retries=0) as client:
        assert len(client.classify(QUERIES)) == len(QUERIES)  # in batches that the service takes
        for ask, words in (
            (lambda: client.classify(QUERIES[0], n_neighbours=6), "n_neighbours"),
            (lambda: client.suspects(41), "n is 41, more than 40"),
            (lambda: client.review(41), "n is 41, more than 40"),
            (lambda: client.link(range(41)), "batch"),
        ):
            with pytest.raises(OverLimitError, match=words):
                ask()


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/classify", {"max_error": 0}, "max_error=0.0 is not a number between 0 and 1."),
        ("/classify", {"max_error": 1.5}, "max_error=1.5 is not a number between 0 and 1."),
        ("/classify", {"unknown_share": -1}, "unknown_share=-1.0 is not a number between 0 and 1, or 0."),
        ("/classify", {"vectors": None}, "vectors, documents or images: give one of them."),
        ("/classify", {"vectors": [[1.0, 2.0]]}, "64"),
        ("/classify", {"documents": ["a"], "vectors": None}, "embedder"),
        ("/classify", {"max_error": "small"}, "max_error: "),
        ("/review", {"by": "chance"}, "by: "),
        ("/review", {"n": 0}, "n: "),
        ("/suspects", {"labels": "x"}, "label"),
        ("/search", {"rescore": "near"}, "rescore: "),
        ("/search", {"radius": 3, "rescore": "learned"}, "radius goes without k, rescore and asymmetric"),
        ("/link", {"ids": [1]}, "link takes at least two ids."),
        ("/link", {"ids": [1, 9999]}, "There is no item with id 9999"),
        ("/unlink", {"ids": [9999]}, "There is no item with id 9999"),
        ("/merge_labels", {"label": 55, "into": 1}, "No item has the label 55."),
        ("/merge_labels", {"label": 1, "into": 55}, "No item has the label 55; call rename_label."),
        ("/rename_label", {"label": 1, "to": 2}, "Items have the label 2; call merge_labels."),
        ("/rename_label", {"label": 1, "to": "one"}, "label"),
    ],
)
def test_bad_input_is_a_problem_of_one_sentence(digits, path, body, words):
    _, url = digits
    if path in ("/classify", "/search"):
        body = {"vectors": X[:1].tolist()} | body
        body = {name: value for name, value in body.items() if value is not None}
    answer = httpx.post(f"{url}/api/v1{path}", json=body)
    assert answer.status_code == (404 if "no item" in words else 422), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert words in answer.json()["detail"]
    assert not {"There", "Items", "No"} & {error["field"] for error in answer.json()["errors"]}


def test_a_collection_that_cannot_decide_says_why(tmp_path):
    cases = {
        "empty": (HROH(16, n_components=32), None, "has learned nothing yet; upsert items with labels first."),
        "one": (HROH(16, n_components=32), [3] * 50, "There is one label, 3, so there is nothing to decide."),
        "lsh": (LSH(16), [1, 2] * 25, "'lsh' has no scores of classes"),
    }
    for name, (hasher, labels, words) in cases.items():
        with Collection.open(tmp_path / f"{name}.oh", hasher) as collection, serve_in_thread(collection) as url:
            if labels is not None:
                collection.upsert(range(50), X[:50], labels)
                collection.refresh()
            with Client(url, retries=0) as client:
                for ask in (lambda: client.classify(X[0]), client.suspects, client.review):
                    with pytest.raises((InvalidInputError, ServiceError), match=words) as refused:
                        ask()
                    assert name != "empty" or refused.value.status == 409
                assert client.search(X[0], 3).ids == collection.search(X[0], 3).ids
                if name == "lsh":
                    with pytest.raises(InvalidInputError, match="rescore='learned', but 'lsh' has no scores"):
                        client.search(X[0], rescore="learned")
                    with pytest.raises(InvalidInputError, match="cannot change labels"):
                        client.merge_labels(1, 2)
                with pytest.raises(UnknownIdError):
                    client.link([100, 101])


def test_retrievability_is_measured_on_a_sample(digits):
    _, url = digits
    found = httpx.get(f"{url}/api/v1/retrievability").json()
    assert (found["n_queries"], found["k"]) == (500, 10)
    assert found["self_recall"] > 0.99  # an item with the same vector comes first
    assert found["self_recall"] <= found["coverage"] <= 1


def test_work_that_nobody_waits_for_ends(digits):
    collection, _ = digits

    def stop(done, total):
        raise InterruptedError

    for read in (collection.suspects, collection.review):
        with pytest.raises(InterruptedError):
            read(progress=stop)
