"""What transform returns, for pipelines of scikit-learn."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import BernoulliNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from onlinehash import HCOH, LSH, load_hasher, pack_bits, pack_signs
from onlinehash.exceptions import InvalidInputError

X, Y = load_digits(return_X_y=True)


@pytest.mark.parametrize("estimator", [KNeighborsClassifier(metric="hamming"), BernoulliNB()])
def test_a_pipeline_learns_from_bits(estimator):
    pipeline = make_pipeline(HCOH(16, output="bits", random_state=0), estimator).fit(X[:1000], Y[:1000])
    assert pipeline.score(X[1000:], Y[1000:]) > 0.85
    packed = clone(pipeline).set_params(hcoh__output="codes").fit(X[:1000], Y[:1000])
    assert pipeline.score(X[1000:], Y[1000:]) > packed.score(X[1000:], Y[1000:])


def test_output_can_be_searched_over_and_changed_later():
    pipeline = make_pipeline(LSH(8, random_state=0), KNeighborsClassifier(metric="hamming"))
    search = GridSearchCV(pipeline, {"lsh__output": ["codes", "bits", "signs"]}, cv=2).fit(X[:300], Y[:300])
    assert search.best_params_["lsh__output"] in {"bits", "signs"}
    hasher = HCOH(12, random_state=0).fit(X, Y)
    codes = hasher.transform(X)
    bits, signs = (hasher.set_params(output=output).transform(X) for output in ("bits", "signs"))
    assert bits.shape == signs.shape == (len(X), 12) and set(np.unique(signs)) == {-1, 1}
    assert np.array_equal(pack_bits(bits), codes) and np.array_equal(pack_signs(signs), codes)
    assert load_hasher(hasher.to_bytes()).output == "signs"
    assert 0.8 < hasher.score(X, Y) == hasher.set_params(output="codes").score(X, Y)
    with pytest.raises(InvalidInputError, match="output='bytes' is not one of 'codes', 'bits', 'signs'"):
        hasher.set_params(output="bytes").transform(X)


def test_columns_have_names_and_pandas_frames_come_out():
    hasher = HCOH(12, random_state=0).fit(X, Y)
    assert hasher.get_feature_names_out().tolist() == ["hcoh0", "hcoh1"]
    hasher.set_params(output="bits").set_output(transform="pandas")
    frame = hasher.transform(X[:5])
    assert frame.columns.tolist() == [f"hcoh{bit}" for bit in range(12)]
    assert frame.shape == (5, 12) and set(np.unique(frame)) <= {0, 1}
    assert hasher.score(X, Y) > 0.8
