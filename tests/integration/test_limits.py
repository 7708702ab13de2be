"""What limits a cell, measured on a virtual phone: the memory's speed, its cores, its memory, the depth of history."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.ordered import ordered_bundle
from harness.bench.context import RunContext
from harness.bench.leave import leave_as_found
from harness.bench.phone import ConnectedPhone, connect
from harness.bench.session import PhoneSession
from harness.core.deadline import Deadline
from harness.core.provider import Endpoint
from harness.payload.bundle import default_bundle, read_bundle
from harness.payload.models import find_model, read_model
from harness.payload.probe_events import Event, Output
from harness.plan.matrix import cells_of
from harness.plan.model import Plan
from harness.plan.tiers import load_tier_rules
from harness.report.depth import depths_of
from harness.store.runfolder import RunFolder
from harness.store.schema import CellRecord
from harness.virtual.control import PhoneControl

FAST = ("load_ms=5", "prefill_ms=5", "first_token_ms=1", "token_ms=1")
ONE_CORE = len(os.sched_getaffinity(0)) < 2
# Bytes of memory that make a process on the phone larger than any runner here.
HOG = "import time; x = bytearray(b'x') * (300 << 20); print('there', flush=True); time.sleep(60)"

Measure = Callable[..., list[CellRecord]]


@pytest.fixture(scope="module")
def connected(virtual_phone: Endpoint) -> Iterator[ConnectedPhone]:
    phone = connect(virtual_phone, load_tier_rules())
    yield phone
    leave_as_found(phone, lambda _: None)


@pytest.fixture
def measure(connected: ConnectedPhone, tmp_path: Path) -> Measure:
    """Run the cells of a plan, with the synthetic runner under ``orders`` or with MNN, and return their records."""

    def run(
        *orders: str, mnn: bool = False, watch: Callable[[Event], None] = lambda _: None, reads: int = 0, **plan: Any
    ) -> list[CellRecord]:
        values: dict[str, Any] = {"models": ["tiny-llama"], "backends": ["cpu"], "threads": [1], "repeats": 3}
        values |= {"generate_tokens": [20], "load_rounds": 1, "roofline": {"measure": False}}
        chosen = Plan.model_validate({**values, **plan})
        model = read_model(find_model("tiny-llama"))
        if reads:
            model = replace(model, read_per_token_bytes=reads)
        bundle = default_bundle() if mnn else read_bundle(ordered_bundle(tmp_path / "bundle", (*FAST, *orders)))
        folder = RunFolder.create(tmp_path / "run")
        context = RunContext("limits", folder.path, chosen, bundle, {"tiny-llama": model})
        session = PhoneSession(connected, context, lambda _: None, watch)
        for cell in cells_of(chosen):
            session.run_cell(cell)
        return list(folder.records())

    return run


def verdict(record: CellRecord) -> tuple[str, str | None]:
    return record.verdict.value, record.reason


def test_the_memorys_speed_stands_in_the_record_of_a_real_run_and_its_share_is_sane(measure: Measure) -> None:
    [record] = measure(mnn=True, reads=150 << 20, roofline={"slack": 10.0})
    assert record.metrics is not None
    assert record.metrics.bandwidth_gb_per_s is not None
    assert 0.5 < record.metrics.bandwidth_gb_per_s < 2000
    assert record.metrics.decode_tps is not None
    share = record.metrics.decode_tps.median * (150 << 20) / (record.metrics.bandwidth_gb_per_s * 1e9)
    assert record.metrics.roofline_ratio == pytest.approx(share)


def test_a_small_model_is_not_held_against_the_memorys_speed(measure: Measure) -> None:
    [record] = measure(roofline={})
    assert verdict(record) == ("ok", None), record.detail
    assert record.metrics is not None
    assert record.metrics.roofline_ratio is None
    assert "may fit in the caches" in record.nulls["roofline_ratio"]


def test_a_run_faster_than_memory_can_be_read_is_not_possible(measure: Measure) -> None:
    # a token a millisecond, each of which would read 8 GiB
    [record] = measure(reads=8 << 30, roofline={})
    assert verdict(record) == ("rejected", "implausible_speed")
    assert "the phone's memory gives" in record.detail


def test_a_cell_stays_on_the_cores_it_asked_for(measure: Measure) -> None:
    [record] = measure("token_ms=10", "mode=spin", affinity=["0"])
    assert verdict(record) == ("ok", None), record.detail
    assert record.config.affinity == "0"


@pytest.mark.skipif(ONE_CORE, reason="one core is all there is")
def test_a_phone_that_takes_the_cores_away_costs_the_figure(measure: Measure, connected: ConnectedPhone) -> None:
    control = PhoneControl(connected.name)
    control.inject("affinity-lost")
    try:
        [record] = measure("token_ms=20", affinity=["0"])
    finally:
        control.heal()
    assert verdict(record) == ("rejected", "noisy")
    assert "affinity did not hold: asked were cores 0, threads were allowed on" in record.detail


def test_cores_that_the_phone_lacks_are_refused_before_anything_runs(measure: Measure) -> None:
    [record] = measure(affinity=["64"])
    assert verdict(record) == ("failed", "bad_plan")
    assert (record.detail, record.raw) == ("affinity 64 asks for core 64; the phone has cores 0-7", None)


def test_memory_that_leaks_is_told_by_generation(measure: Measure) -> None:
    [record] = measure("peak_mb=40", "leak_mb_per_gen=10", repeats=5)
    assert verdict(record) == ("ok", None), record.detail
    assert record.metrics is not None
    assert record.metrics.growth_bytes == pytest.approx(10 << 20, rel=0.01)
    assert record.metrics.baseline_rss_bytes is not None
    assert 0 < record.metrics.baseline_rss_bytes < 20 << 20
    assert [finding.code for finding in record.findings if finding.severity == "warning"] == ["memory_growth"]


def test_loads_that_leave_nothing_behind_grow_by_nothing(measure: Measure) -> None:
    [record] = measure("peak_mb=40", load_rounds=3)
    assert record.metrics is not None
    assert record.metrics.reload_growth_bytes == pytest.approx(0, abs=1 << 20)


def test_an_app_that_the_phone_kills_meanwhile_is_named(measure: Measure, connected: ConnectedPhone) -> None:
    control, phone = PhoneControl(connected.name), connected.transport
    done: list[bool] = []

    def kill_once(event: Event) -> None:
        if isinstance(event, Output) and b'"generation"' in event.data and not done:
            done.append(True)
            control.inject("lmkd-kill")

    with phone.stream(["python3", "-c", HOG], deadline=Deadline(60, "the hog", phone.name)) as hog:
        assert next(iter(hog)) == (1, b"there\n")
        [record] = measure("token_ms=10", watch=kill_once)
    assert verdict(record) == ("ok", None), record.detail
    assert record.metrics is not None
    assert record.metrics.killed_apps == 1
    [found] = [finding for finding in record.findings if finding.code == "killed_apps"]
    assert "python3" in found.title
    assert "lowmemorykiller" in found.evidence


def test_what_was_killed_before_a_run_is_not_of_that_run(measure: Measure) -> None:
    [record] = measure()
    assert record.metrics is not None
    assert record.metrics.killed_apps == 0


def test_decode_speed_is_measured_at_a_depth_of_history(measure: Measure) -> None:
    records = measure(mnn=True, context_tokens=[0, 512], repeats=2, warmups=0)
    assert [verdict(record) for record in records] == [("ok", None)] * 2, [record.detail for record in records]
    assert [record.config.context_tokens for record in records] == [0, 512]
    assert {sample.prompt_tokens for record in records for sample in record.samples} == {64}
    [line] = depths_of(records)
    assert line.says.endswith("tok/s at 0/512 tokens of history")
