"""What a newcomer does first, with the package as it is installed here and nothing else: ``python tests/smoke.py``."""

import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import onlinehash as oh

HERE = Path(oh.__file__).parent
split = oh.load_dataset("digits").split()

assert version("onlinehash") == oh.__version__
assert (HERE / "py.typed").is_file()
assert (HERE / "service" / "static" / "index.html").is_file()

hasher = oh.HROH(n_bits=32, n_components=256, random_state=0).partial_fit(*split.stream)
encoder = hasher.snapshot()
codes, queries = encoder.encode(split.database.X), encoder.encode(split.queries.X)
index = oh.FlatIndex(n_bits=32)
index.upsert(codes)
assert index.search(queries, k=10).ids.shape == (len(queries), 10)
assert oh.mean_average_precision(queries, split.queries.y, codes, split.database.y) > 0.9

with TemporaryDirectory() as folder:
    hasher.save(f"{folder}/model.oh")
    assert (oh.load_hasher(f"{folder}/model.oh").snapshot().encode(split.database.X) == codes).all()
    with oh.Collection.open(f"{folder}/digits.oh", hasher="hcoh") as digits:
        digits.upsert(range(1000), split.stream.X[:1000], split.stream.y[:1000])
        assert len(digits.search(split.queries.X[0], k=5)) == 5
    for name, side in (("queries", split.queries), ("items", split.database)):
        np.savez(f"{folder}/{name}.npz", X=side.X, y=side.y)
    files = f"--queries {folder}/queries.npz --database {folder}/items.npz"
    for command in ("datasets", f"evaluate --model {folder}/model.oh {files}", f"demo --quick --out {folder}/demo"):
        subprocess.run([sys.executable, "-m", "onlinehash.cli", *command.split()], check=True, capture_output=True)
    for module, code in {
        "psycopg": "Collection.open('a', 'lsh', store='postgresql://127.0.0.1/a')",
        "pymilvus": "from onlinehash.indexes.engines import MilvusIndex",
        "matplotlib": "from onlinehash.experiments.export import check_report; check_report(Path('a.html'))",
    }.items():
        if find_spec(module) is None:  # the way out is in the error
            program = f"from pathlib import Path; from onlinehash import Collection; {code}"
            run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
            assert "pip install '.[" in run.stderr, run.stderr

if sys.platform == "win32":
    sys.stdout.write("Not on Windows: Milvus Lite, keys of the service read again on SIGHUP, uvloop.\n")
sys.stdout.write(f"onlinehash {oh.__version__} works on Python {sys.version.split()[0]}.\n")
