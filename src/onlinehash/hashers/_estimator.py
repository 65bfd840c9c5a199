"""The contract of scikit-learn, without importing it: that takes longer than all else that a collection needs."""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash.exceptions import InvalidInputError

if TYPE_CHECKING:
    from sklearn.utils import Tags


class Estimator:
    """What scikit-learn expects of a transformer; it is imported when it asks, and has been by then.

    A class that inherits from scikit-learn's ``BaseEstimator`` would import it, and pandas and SciPy's statistics with
    it, in every process that opens a collection.
    """

    supervised: ClassVar[bool]
    _sklearn_auto_wrap_output_keys: ClassVar[set[str]] = {"transform"}

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return sorted(inspect.signature(cls).parameters)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters and their values; ``deep`` makes no difference, because none is an estimator."""
        return {name: getattr(self, name) for name in self._get_param_names()}

    def set_params(self, **params: Any) -> Self:
        """Set parameters, and return the hasher."""
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise InvalidInputError(
                    f"Invalid parameter {name!r} for estimator {self}. Valid parameters are: {list(known)}."
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        """Return the call that makes the hasher, with the parameters that are not the default ones."""
        defaults = inspect.signature(type(self)).parameters
        changed = {name: repr(value) for name, value in self.get_params().items()}
        shown = [f"{name}={text}" for name, text in changed.items() if text != repr(defaults[name].default)]
        return f"{type(self).__name__}({', '.join(shown)})"

    def fit_transform(self, X: ArrayLike, y: Any = None, **fit_params: Any) -> NDArray[Any]:
        """Learn from X as ``fit`` does, and return its codes as ``transform`` does."""
        return self.fit(X, y, **fit_params).transform(X)  # type: ignore[attr-defined, no-any-return]

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns of ``transform``: the class in lower case and a number."""
        columns = range(self._n_features_out)  # type: ignore[attr-defined]
        return np.array([f"{type(self).__name__.lower()}{i}" for i in columns], object)

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose what ``transform`` returns: "default", "pandas" or "polars"; None changes nothing."""
        if transform is not None:
            self._sklearn_output_config = {"transform": transform}
        return self

    def _in_container(self, rows: NDArray[Any], X: Any) -> NDArray[Any]:
        """Return rows in what ``set_output``, or the settings of scikit-learn, ask for."""
        if "sklearn" not in sys.modules and not hasattr(self, "_sklearn_output_config"):
            return rows
        from sklearn.utils._set_output import _wrap_data_with_container

        return _wrap_data_with_container("transform", rows, X, self)  # type: ignore[no-any-return]

    def __sklearn_tags__(self) -> Tags:
        from sklearn.utils import Tags, TargetTags, TransformerTags

        target, transformer = TargetTags(required=self.supervised), TransformerTags(preserves_dtype=[])
        return Tags(estimator_type=None, target_tags=target, transformer_tags=transformer)
