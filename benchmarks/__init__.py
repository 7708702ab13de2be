"""Benchmarks of the harness itself: what it costs, as ratios taken in one run. Never part of the tests."""
