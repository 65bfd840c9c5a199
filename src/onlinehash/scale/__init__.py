"""Data sets in Parquet, of any size: learned by many processes, with Ray.

Needs ``pip install '.[ray]'`` in a clone of the repository, on every machine of a cluster. Without an address, Ray is
started on this machine for each call; a Ray that runs already is used and left running.

Examples
--------
>>> import tempfile, pyarrow, pyarrow.parquet
>>> from pathlib import Path
>>> from onlinehash import HROH, scale
>>> from sklearn.datasets import load_digits
>>> X, y = load_digits(return_X_y=True)
>>> table = pyarrow.table({"id": range(len(X)), "vectors": list(X), "label": y})
>>> with tempfile.TemporaryDirectory() as name, scale.cluster(n_workers=1):
...     data = Path(name) / "digits.parquet"
...     pyarrow.parquet.write_table(table, data, row_group_size=1000)
...     hasher = scale.learn(data, HROH(16, n_components=256, random_state=0))
>>> bool(hasher.score(X, y) > 0.9)
True
"""

from onlinehash.scale.cluster import cluster
from onlinehash.scale.jobs import learn

__all__ = ["cluster", "learn"]
