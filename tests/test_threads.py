"""Matrix products run on one thread, whichever threads ask for it, and in whichever order they end."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

from onlinehash import HROH  # noqa: F401 (loads the BLAS of SciPy, too)
from onlinehash._internal import threads
from onlinehash._internal.threads import single_threaded_products

pytest.importorskip("faiss")  # its BLAS has a number for each thread


@pytest.fixture(autouse=True)
def looked_up_again() -> Iterator[None]:
    """Look up all libraries that are loaded by now."""
    threads._libraries.cache_clear()
    yield
    threads._libraries.cache_clear()


def n_threads() -> set[int]:
    """Return the numbers of threads that the libraries would use in this thread."""
    return {library.get_num_threads() for library in ThreadpoolController().select(user_api="blas").lib_controllers}


@pytest.fixture
def three_threads() -> Iterator[None]:
    """Give BLAS three threads during a test."""
    with threadpool_limits(3, user_api="blas"):
        yield


@pytest.fixture
def worker() -> Iterator[ThreadPoolExecutor]:
    """Yield a thread that lives as long as a test, as that of a refresh does."""
    with ThreadPoolExecutor(1) as executor:
        yield executor


@pytest.mark.usefixtures("three_threads")
def test_another_thread_than_the_first_sets_it_too(worker: ThreadPoolExecutor) -> None:
    def inside() -> set[int]:
        with single_threaded_products():
            return n_threads()

    assert inside() == {1}
    assert worker.submit(inside).result() == {1}
    assert inside() == {1}
    assert n_threads() == {3}


@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize("first_to_end", ["this thread", "the other thread"])
def test_the_number_of_threads_comes_back_when_the_last_thread_ends(
    worker: ThreadPoolExecutor, first_to_end: str
) -> None:
    ours, others = ExitStack(), ExitStack()
    ours.enter_context(single_threaded_products())
    worker.submit(others.enter_context, single_threaded_products()).result()
    if first_to_end == "this thread":
        ours.close()
        assert worker.submit(n_threads).result() == {1}
        worker.submit(others.close).result()
    else:
        worker.submit(others.close).result()
        assert n_threads() == {1}
        ours.close()
    assert n_threads() == {3}


@pytest.mark.usefixtures("three_threads")
def test_others_may_set_it_afterwards_from_any_thread(worker: ThreadPoolExecutor) -> None:
    with single_threaded_products():
        pass

    def limited() -> set[int]:
        with threadpool_limits(2, user_api="blas"):
            return n_threads()

    assert worker.submit(limited).result() == {2}


@pytest.mark.usefixtures("three_threads")
def test_few_rows_are_left_to_the_library() -> None:
    with single_threaded_products(1):
        assert n_threads() == {3}
