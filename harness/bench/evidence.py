"""What is known of a cell that ran, and what may be said against its figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from harness.bench.limits import Limits
from harness.bench.match import Reference
from harness.bench.metrics import possible_ms
from harness.bench.phone_log import NOT_READ, engine_lines
from harness.bench.tensor_compare import TensorResult
from harness.bench.throttle import Throttling, throttling_of
from harness.bench.timeline import Timeline, timeline_of, timeline_of_inferences
from harness.core.reasons import Reason
from harness.payload.probe_events import RunLog
from harness.phone.battery import Battery
from harness.phone.thermalservice import NOT_ASKED, Status
from harness.plan.matrix import PlannedCell
from harness.plan.model import Plan
from harness.runners.events import Generation, Inference, Load, RunnerLog


@dataclass(frozen=True)
class ColdStart:
    """How the first use of a model went: its load, and the first generation or inference.

    ``why_not`` says why its times are no figures.

    ``compiled`` is the line in which a GPU's runtime kept the kernels that it compiled then: the run after it finds
    them and says nothing. ``run`` is the probe's account of it, and ``why_warm`` why files were not out of the file
    cache.
    """

    load: Load | None = None
    generation: Generation | Inference | None = None
    why_not: str = ""
    compiled: str = ""
    run: RunLog | None = field(default=None, compare=False)
    why_warm: str = field(default="", compare=False)

    @property
    def figures(self) -> dict[str, float | None]:
        """Time to load, from there to the first token or outputs together, and of that the engine's tuning, in ms."""
        load_ms = possible_ms(self.load.load_ms) if self.load is not None else None
        first, ttft_ms = self.generation, None
        if first is not None:
            ttft_ms = possible_ms(first.latency_ms if isinstance(first, Inference) else first.ttft_ms)
        if self.why_not or load_ms is None or ttft_ms is None:
            return {}
        tuning_ms = possible_ms(self.load.tuning_ms) if self.load is not None else None
        return {"load_cold_ms": load_ms, "first_use_ms": load_ms + ttft_ms, "tuning_ms": tuning_ms}


@dataclass(frozen=True)
class Evidence:
    """All that is known of a cell that ran.

    ``run`` is the probe's account, ``beside`` those of the runs after it that show the text, ``told`` the runner's own,
    ``phone_log`` the phone's log over that time and ``phone_log_gap`` why it cannot tell everything, if so;
    ``stood_still`` that it told nothing for so long that the phone had to be woken; ``cold`` the cold start before it,
    where there was one; ``limits`` what was known of the phone's memory and cores before; ``reference`` is what the
    same model says on this computer, ``reference_why`` why that is not known; ``core_max_khz`` the top clock of each
    core. Of a tensor cell: ``tensors`` is what came out against what was expected, where the run ended well, and
    ``multiplied_weights`` how many weights each inference multiplies with (0: not known).
    """

    cell: PlannedCell
    plan: Plan
    run: RunLog
    told: RunnerLog
    weight_bytes: int
    ram_bytes: int | None
    started_hot: str | None = None
    stood_still: bool = False
    phone_log: bytes = b""
    phone_log_gap: str = NOT_READ
    battery_before: Battery | None = None
    battery_after: Battery | None = None
    reference: Reference | None = None
    reference_why: str = "the plan compares with no reference"
    cold: ColdStart | None = None
    limits: Limits = field(default_factory=Limits)
    core_max_khz: Mapping[int, int | None] = field(default_factory=dict)
    status_before: Status = NOT_ASKED
    status_after: Status = NOT_ASKED
    tensors: TensorResult | None = None
    multiplied_weights: int = 0
    beside: tuple[RunLog, ...] = ()

    @property
    def timed(self) -> tuple[Generation, ...]:
        """The timed generations."""
        return self.told.of_kind("timed")

    @property
    def measured(self) -> tuple[Generation | Inference, ...]:
        """What was timed: generations, of a tensor cell inferences."""
        if self.cell.tensor:
            return tuple(one for one in self.told.inferences if one.kind == "timed")
        return self.timed

    @cached_property
    def timeline(self) -> Timeline:
        """Every token (of a tensor cell every inference) with its moment and what the sensors said then."""
        if self.cell.tensor:
            return timeline_of_inferences(self.run, self.told.inferences, self.core_max_khz)
        return timeline_of(self.run, self.told.generations, self.core_max_khz)

    @cached_property
    def throttling(self) -> Throttling:
        """What became of the speed over the run, and why."""
        statuses = (self.status_before.value, self.status_after.value)
        return throttling_of(self.timeline, backend=self.cell.backend, statuses=statuses)

    @property
    def wall_ms(self) -> float | None:
        """How long the whole run took by the phone's monotonic clock; ``None`` when the probe did not tell."""
        start, end = self.run.start, self.run.end
        return None if start is None or end is None else (end.mono_ns - start.mono_ns) / 1e6

    @property
    def engine_log(self) -> bytes:
        """Everything the engine printed, wherever it went: builds with MNN_USE_LOGCAT print into the phone's log."""
        junk = "\n".join(self.told.junk).encode()
        return b"\n".join((self.run.stderr, junk, engine_lines(self.phone_log, self.pids)))

    @property
    def pids(self) -> frozenset[int]:
        """The numbers of our process on the phone: as the probe started it, and as it says itself."""
        start, hello = self.run.start, self.told.hello
        known = (start.pid if start is not None else None, hello.pid if hello is not None else None)
        return frozenset(pid for pid in known if pid is not None)


@dataclass(frozen=True)
class Objection:
    """Why a cell is not ``ok``: the reason, and the evidence in one sentence."""

    reason: Reason
    detail: str
    evidence: str = ""


Rule = Callable[[Evidence], Iterator[Objection]]


def explain(nulls: dict[str, str], is_null: bool, name: str, why: str) -> None:
    """Note why a field of the record is null, where it is."""
    if is_null:
        nulls[name] = why
