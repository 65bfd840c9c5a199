"""Speed, as ratios to competitors measured in one run. Run: python -m benchmarks."""
