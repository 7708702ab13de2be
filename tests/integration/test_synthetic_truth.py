"""Known truth through the whole chain: what the synthetic runner was ordered to do is what the record says.

One virtual phone behind the real adb server; every case is another copy of the bundle with its own ``extra_args``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.ordered import ordered_bundle
from harness.bench.context import RunContext
from harness.bench.leave import leave_as_found
from harness.bench.phone import ConnectedPhone, connect
from harness.bench.session import PhoneSession
from harness.core.errors import HostError
from harness.core.provider import load_provider
from harness.payload.bundle import read_bundle
from harness.payload.models import find_model, read_model
from harness.plan.load import load_plan
from harness.plan.matrix import cells_of
from harness.plan.tiers import load_tier_rules
from harness.store.runfolder import RunFolder
from harness.store.schema import CellRecord

PLAN = """
schema = 1
models = ["tiny-llama"]
backends = ["{backend}"]
cold_start = false
threads = [1]
prompt_tokens = [32]
generate_tokens = [20]
warmups = 1
repeats = 3
cell_timeout_s = {timeout_s}
[roofline]
measure = false
"""
FAST = ("load_ms=5", "prefill_ms=5", "first_token_ms=1", "token_ms=1")

Measure = Callable[..., CellRecord]


def write_plan(file: Path, backend: str = "cpu", timeout_s: float = 30.0) -> Path:
    file.write_text(PLAN.format(backend=backend, timeout_s=timeout_s))
    return file


@pytest.fixture(scope="module")
def connected(farm_cache: Path) -> Iterator[ConnectedPhone]:
    """A phone that is described as having an OpenCL driver."""
    patch = pytest.MonkeyPatch()
    patch.setenv("MNN_FARM_CACHE", str(farm_cache))
    provider = load_provider("virtual")
    try:
        phone = connect(provider.start(["high-opencl"])[0], load_tier_rules())
        yield phone
        leave_as_found(phone, lambda _: None)
    except HostError as error:
        pytest.skip(f"no virtual phone on this computer: {error}")
    finally:
        provider.stop()
        patch.undo()


@pytest.fixture
def measure(connected: ConnectedPhone, tmp_path: Path) -> Measure:
    """Run one cell with the given orders and return its record as it was written."""

    def run(*orders: str, backend: str = "cpu", timeout_s: float = 30.0) -> CellRecord:
        bundle = read_bundle(ordered_bundle(tmp_path / "bundle", (*FAST, *orders)))
        plan = load_plan(write_plan(tmp_path / "plan.toml", backend, timeout_s))
        models = {name: read_model(find_model(name)) for name in plan.models}
        folder = RunFolder.create(tmp_path / "run")
        context = RunContext("truth", folder.path, plan, bundle, models)
        [planned] = cells_of(plan)
        PhoneSession(connected, context, lambda _: None).run_cell(planned)
        [record] = folder.records()
        return record

    return run


def verdict(record: CellRecord) -> tuple[str, str | None]:
    return record.verdict.value, record.reason


def test_ordered_times_and_memory_come_back(measure: Measure) -> None:
    record = measure("load_ms=150", "prefill_ms=80", "first_token_ms=20", "token_ms=8", "peak_mb=96")
    assert verdict(record) == ("ok", None), record.detail
    assert record.metrics is not None
    assert record.metrics.ttft_ms is not None
    assert record.metrics.prefill_tps is not None
    assert record.metrics.decode_tps is not None
    assert record.metrics.token_ms is not None
    assert record.metrics.load_ms is not None
    assert record.metrics.peak_rss_bytes is not None
    # A machine that is busy makes times longer, never shorter; a factor of two tells a right figure from a wrong one.
    assert 150 <= record.metrics.load_ms < 450
    assert 100 <= record.metrics.ttft_ms.min < 200
    assert 32 / 0.160 < record.metrics.prefill_tps.median <= 32 / 0.080
    assert 1000 / 16 < record.metrics.decode_tps.median < 1000 / 4
    assert 4 < record.metrics.token_ms.p50 < 16
    assert 95 << 20 < record.metrics.peak_rss_bytes < 98 << 20
    assert record.bundle.engine == "synthetic"


def test_memory_that_leaks_shows_in_the_peak(measure: Measure) -> None:
    record = measure("peak_mb=40", "leak_mb_per_gen=10")
    assert record.metrics is not None
    assert record.metrics.peak_rss_bytes is not None
    assert 79 << 20 < record.metrics.peak_rss_bytes < 82 << 20, "40 MiB and four generations of 10 MiB"


def test_ordered_text_comes_back(measure: Measure) -> None:
    record = measure("text=Grüße aus dem Prüfstand")
    assert record.output is not None
    assert record.output.text == "Grüße aus dem Prüfstand"


def test_ordered_slowness_shows_in_the_later_generations(measure: Measure) -> None:
    record = measure("token_ms=5", "slow_after_s=0.2", "slow_factor=6")
    speeds = [sample.decode_tps for sample in record.samples]
    assert speeds[0] is not None
    assert speeds[-1] is not None
    assert speeds[-1] < speeds[0] / 2


@pytest.mark.parametrize(
    ("orders", "expected", "detail"),
    [
        (("fault=SIGSEGV",), ("failed", "crash"), "SIGSEGV"),
        (("fault=SIGABRT", "at=load"), ("failed", "crash"), "SIGABRT"),
        (("fault=SIGBUS", "at=prefill"), ("failed", "crash"), "SIGBUS"),
        (("fault=SIGILL", "at=load"), ("failed", "illegal_instruction"), "SIGILL"),
        (("fault=exit", "at=start"), ("failed", "silent_exit"), "without a word"),
        (("fault=exit", "at=decode"), ("rejected", "unparsed_output"), "end is missing"),
        (("fault=exit", "at=load", "exit_code=3"), ("failed", "engine_error"), "exit code 3"),
        (("fault=garbage", "at=load"), ("rejected", "unparsed_output"), ""),
        (("fault=non_utf8", "at=load"), ("rejected", "unparsed_output"), ""),
        (("fault=truncate", "at=end"), ("rejected", "unparsed_output"), ""),
        (("fault=error", "at=load"), ("failed", "load_error"), "an error while loading was ordered"),
        (("fault=error", "at=decode"), ("failed", "engine_error"), "an error while generating was ordered"),
        (("short_tokens=4",), ("rejected", "token_count_short"), "16 generated tokens"),
        (("finish=eos:5",), ("rejected", "token_count_short"), "finish: eos"),
        (("text= ",), ("rejected", "output_degenerate"), "no text"),
        (("token_ids=7,8",), ("rejected", "output_degenerate"), "repeats 2 token(s)"),
        (("backend_strength=none",), ("rejected", "backend_unproven"), "proof is none"),
        (("prefill_ms=0", "first_token_ms=0", "token_ms=0"), ("rejected", "implausible_speed"), ""),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_an_ordered_fault_ends_in_its_verdict(
    measure: Measure, orders: tuple[str, ...], expected: tuple[str, str], detail: str
) -> None:
    record = measure(*orders)
    assert verdict(record) == expected, record.detail
    assert detail in record.detail


@pytest.mark.parametrize("stage", ["load", "decode"])
def test_a_hang_is_ended_at_the_plans_timeout(measure: Measure, stage: str) -> None:
    record = measure("fault=hang", f"at={stage}", timeout_s=0.5)
    assert verdict(record) == ("failed", "hang")
    assert record.elapsed_s < 20


@pytest.mark.parametrize("lie", ["fallback_marker=1", "backend_actual=cpu"])
def test_a_backend_that_was_not_used_is_found_out(measure: Measure, lie: str) -> None:
    record = measure(lie, backend="opencl")
    assert verdict(record) == ("rejected", "backend_fallback")
    assert record.backend is not None
    assert (record.backend.requested, record.backend.actual) == ("opencl", "cpu")


def test_from_the_command_line_a_plan_and_a_bundle_are_enough(farm_cache: Path, tmp_path: Path) -> None:
    bundle = ordered_bundle(tmp_path / "bundle", (*FAST, "token_ms=4"))
    plan = write_plan(tmp_path / "plan.toml")
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--devices", "virtual:1"]
    argv += ["--bundle", str(bundle), "--plan", str(plan), "--run-dir", str(tmp_path / "run")]
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "ANDROID_"))}
    env = {**clean, "MNN_FARM_CACHE": str(farm_cache), "CI": "true"}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, env=env, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr
    [record] = RunFolder(tmp_path / "run").records()
    assert verdict(record) == ("ok", None)
    assert record.bundle.hash == read_bundle(bundle).hash
