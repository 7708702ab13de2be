"""The runners by name."""

from __future__ import annotations

from harness.payload.bundle import Bundle
from harness.payload.bundle_manifest import RunnerName
from harness.runners.base import Runner
from harness.runners.benchmark_runner import Benchmark
from harness.runners.farm_runner import FarmRunner
from harness.runners.llm_bench_runner import LlmBench
from harness.runners.llm_demo_runner import LlmDemo
from harness.runners.mnn_tensor_runner import MNNV2_BASIC, MODULE_BASIC

RUNNERS: dict[RunnerName, Runner] = {
    "farm_runner": FarmRunner(),
    "llm_bench": LlmBench(),
    "llm_demo": LlmDemo(),
    "modulebasic": MODULE_BASIC,
    "mnnv2basic": MNNV2_BASIC,
    "benchmark": Benchmark(),
}


def runner_of(bundle: Bundle) -> Runner:
    """Return the runner that a bundle is used by."""
    return RUNNERS[bundle.runner]
