"""Every hasher in the registry keeps every promise."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from onlinehash.checks import check_hasher, hasher_checks
from onlinehash.hashers import HASHERS, HCOH

HASHERS_UNDER_TEST = [hasher(n_bits=12, random_state=0) for hasher in HASHERS.values()] + [
    HCOH(n_bits=8, batch_size=7, fit_bias=True, random_state=1),
    HCOH(n_bits=70, preprocess="none", batch_size=50, random_state=2),
]


@pytest.mark.parametrize("check", list(hasher_checks()), ids=lambda check: check.__name__)
@pytest.mark.parametrize("hasher", HASHERS_UNDER_TEST, ids=repr)
def test_hasher_keeps(hasher, check):
    check(clone(hasher))


# scikit-learn skips its array-API check unless SCIPY_ARRAY_API is set; a skip is no failure.
@parametrize_with_checks([hasher(random_state=0) for hasher in HASHERS.values()])
def test_scikit_learn_accepts(estimator, check):
    check(estimator)


class Forgetful(HCOH):
    name = "forgetful"

    def _encoder(self):
        self._weights *= np.asarray(0.5, self._dtype)  # a look that changes the stream
        return super()._encoder()


def test_a_hasher_that_breaks_a_promise_is_found_out():
    with pytest.raises(AssertionError, match="breaks check_"):
        check_hasher(Forgetful(n_bits=8, random_state=0))
