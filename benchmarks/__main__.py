"""Run benchmarks by name, all by default; write results and the table in README.md."""

from __future__ import annotations

import sys
from importlib import import_module

from benchmarks.measure import FOLDER, machine, page, save

NAMES = sorted(path.stem.removeprefix("bench_") for path in FOLDER.glob("bench_*.py"))


def main() -> None:
    if sys.argv[1:] == ["gpu"]:
        import_module("benchmarks.bench_gpu").main([])
        return
    wanted = sys.argv[1:] or [name for name in NAMES if name != "gpu"]
    if unknown := set(wanted) - set(NAMES):
        sys.exit(f"Unknown benchmark {', '.join(sorted(unknown))}. Known: {', '.join(NAMES)}.")
    print(", ".join(f"{name} {value}" for name, value in machine().items()))
    for name in wanted:
        rows = import_module(f"benchmarks.bench_{name}").run()
        save(name, rows)
        for row in rows:
            print(
                f"{name}: {row.what}: {row.meaning} = {row.ratio:.3g} ({row.low:.3g} to {row.high:.3g}); bar: {row.bar}"
            )
    (FOLDER / "README.md").write_text(page())


if __name__ == "__main__":
    main()
