"""Cells of the synthetic runner on a virtual phone through the whole chain, and what the record should say of them."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.ordered import ordered_bundle
from harness.bench.context import RunContext
from harness.bench.phone import ConnectedPhone
from harness.bench.session import PhoneSession
from harness.core.resources import data_root
from harness.payload.bundle import read_bundle
from harness.payload.models import find_model, read_model
from harness.payload.probe_events import RunLog
from harness.plan.matrix import cells_of
from harness.plan.model import Plan
from harness.runners.events import parse_runner_output
from harness.store.runfolder import RunFolder
from harness.store.schema import CellRecord
from harness.virtual.heat import trip_under_load
from harness.virtual.profile import Profile

MODEL = "tiny-llama"
# Between two samples the load is taken for constant; the governor looks more often.
_STEP_S = 0.05
# CPU time is told in hundredths of a second: beside the very start and the onset it is not looked at.
_EDGE_S = 0.2
# How long a phone that did not throttle is followed further.
_LATER_S = 600.0


@dataclass(frozen=True)
class Measured:
    """The record as it was read back, the probe's account of the run, and the folder of raw files."""

    record: CellRecord
    run: RunLog
    raw: Path

    @property
    def first_prompt_ns(self) -> int:
        """When the first timed prompt was submitted, by the runner's own word."""
        begun_ns = parse_runner_output(self.run.stdout).of_kind("timed")[0].begun_ns
        assert begun_ns is not None  # noqa: S101  the synthetic runner tells it
        return begun_ns

    @property
    def hello_s(self) -> float:
        """When the runner said its first words, which is when its own clock starts, by that of :attr:`Heated`."""
        return (self.run.outputs[0].mono_ns - self.first_prompt_ns) / 1e9

    def busy(self, first: int = 0) -> list[tuple[float, float]]:
        """Return the load of a phone at its full clock, as the probe saw it: spans in s and the cores that were busy.

        It begins with the sample ``first``. Once a cap has fallen the load is what throttling left of it: from there on
        it is taken for what it was before.
        """
        spans: list[tuple[float, float]] = []
        for before, after in pairwise(self.run.samples[first:]):
            if after.cap_khz != self.run.samples[0].cap_khz:
                break
            seconds = (after.mono_ns - before.mono_ns) / 1e9
            cpu_s = (after.utime_ms + after.stime_ms - before.utime_ms - before.stime_ms) / 1000
            if seconds > 0 and cpu_s >= 0:
                count = max(1, round(seconds / _STEP_S))
                spans += [(seconds / count, cpu_s / seconds)] * count
        if not spans:
            return []  # it was throttled from the first
        usual = sum(seconds * cores for seconds, cores in spans) / sum(seconds for seconds, _ in spans)
        return spans + [(_STEP_S, usual)] * round(_LATER_S / _STEP_S)

    def busy_cores(self, begin_s: float, end_s: float) -> float:
        """Return how many cores the run had between two moments after the first timed prompt."""
        rows = [row for row in self._cpu_times() if begin_s <= row[0] <= end_s]
        return (rows[-1][1] - rows[0][1]) / (rows[-1][0] - rows[0][0])

    def _cpu_times(self) -> list[tuple[float, float]]:
        return [
            ((sample.mono_ns - self.first_prompt_ns) / 1e9, (sample.utime_ms + sample.stime_ms) / 1000)
            for sample in self.run.samples
            if sample.processes
        ]

    def modelled_onset_s(self, profile: Profile) -> float:
        """Return when the model throttles under this load, in s since the first timed prompt.

        It begins with the temperature that a zone showed a second after the start: until then the phone is also warmed
        by what prepared the run, which no sample tells of.
        """
        assert self.run.sensors is not None  # noqa: S101  every run tells its sensors
        samples, types = self.run.samples, [zone.type for zone in self.run.sensors.zones]
        zone = next(one for one in profile.zones if one.node == "chip" and one.gain == 1.0 and one.type in types)
        raws = [one.milli_c[types.index(zone.type)] for one in samples]
        known = [
            (place, raw)
            for place, raw in enumerate(raws)
            if raw is not None and samples[place].cap_khz == samples[0].cap_khz
        ]
        first, raw = known[min(1, len(known) - 1)]
        rise_c = max(0.0, (raw - zone.raw) / zone.per_degree)
        lead_s = (self.first_prompt_ns - samples[first].mono_ns) / 1e9
        return trip_under_load(profile.heat, self.busy(first), rise_c) - lead_s

    def heat(self, profile: Profile, token_ms: float) -> Heated:
        """Return what heat has to make of a single-threaded cell in ``mode=work`` of ``token_ms`` CPU time a token.

        On a computer that has other things to do a phone gets less than a core: it is slower and heats more slowly.
        Both follow from the CPU time that the run had.
        """
        onset_s = self.modelled_onset_s(profile)
        end_s = self._cpu_times()[-1][0]
        burst, sustained = self.busy_cores(_EDGE_S, onset_s - _EDGE_S), self.busy_cores(0.75 * end_s, end_s)
        return Heated(onset_s, burst * 1000 / token_ms, sustained * 1000 / token_ms)


@dataclass(frozen=True)
class Heated:
    """When a phone throttles, in s since the first timed prompt, and its speeds (tok/s) before and in the end."""

    onset_s: float
    burst_tps: float
    sustained_tps: float


def plan_of(**over: Any) -> Plan:
    """Return a plan for a single-threaded cell that needs nothing but the runner."""
    return Plan.model_validate(
        {
            "models": [MODEL],
            "backends": ["cpu"],
            "threads": [1],
            "prompt_tokens": [8],
            "warmups": 0,
            "load_rounds": 1,
            "cold_start": False,
            "roofline": {"measure": False},
            "reference": {"policy": "off"},
            "prepare": {"screen": "keep", "stay_awake": False, "doze_off": False},
            **over,
        }
    )


class CellRunner:
    """Runs cells on one phone, each in a run folder of its own."""

    def __init__(self, phone: ConnectedPhone, folder: Path) -> None:
        self._phone = phone
        self._folder = folder

    def measure(self, orders: Sequence[str], plan: Plan) -> Measured:
        """Run one cell of the synthetic runner with these orders, and read it back."""
        bundle = Path(tempfile.mkdtemp(dir=self._folder)) / "bundle"
        return self.measure_bundle(ordered_bundle(bundle, orders), plan)

    def measure_bundle(self, bundle: Path, plan: Plan) -> Measured:
        """Run one cell of a bundle, and read it back."""
        folder = RunFolder.create(Path(tempfile.mkdtemp(dir=self._folder)) / "run")
        models = {name: read_model(find_model(name)) for name in plan.models}
        context = RunContext("known", folder.path, plan, read_bundle(bundle), models)
        session = PhoneSession(self._phone, context, lambda _: None)
        session.run_cell(cells_of(plan)[0])
        [record] = folder.records()
        if record.raw is None:
            raise RuntimeError(f"nothing was run: {record.reason}: {record.detail}")
        raw = folder.path / record.raw
        return Measured(record, RunLog.read((raw / "events.jsonl").read_bytes()), raw)


def runners() -> Path:
    """Return the folder of the runner that drives the engine; the synthetic one lies in it."""
    return data_root() / "device_bins" / "runner"
