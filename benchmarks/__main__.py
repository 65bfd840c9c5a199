"""Run benchmarks by name, all by default; write results and the table in README.md."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module

from benchmarks.measure import FOLDER, machine, page, save

NAMES = sorted(path.stem.removeprefix("bench_") for path in FOLDER.glob("bench_*.py"))


def main() -> None:
    if sys.argv[1:] == ["gpu"]:
        import_module("benchmarks.bench_gpu").main([])
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=[name for name in NAMES if name != "gpu"])
    parser.add_argument("--only", help="one part, where a benchmark has parts; the saved rows of the others stay")
    options = parser.parse_args()
    wanted = options.names
    if unknown := set(wanted) - set(NAMES):
        sys.exit(f"Unknown benchmark {', '.join(sorted(unknown))}. Known: {', '.join(NAMES)}.")
    print(", ".join(f"{name} {value}" for name, value in machine().items()))
    for name in wanted:
        rows = import_module(f"benchmarks.bench_{name}").run(*([options.only] if options.only else []))
        save(name, rows, options.only)
        for row in rows:
            print(
                f"{name}: {row.what}: {row.meaning} = {row.ratio:.3g} ({row.low:.3g} to {row.high:.3g}); bar: {row.bar}"
            )
    (FOLDER / "README.md").write_text(page())


if __name__ == "__main__":
    main()
