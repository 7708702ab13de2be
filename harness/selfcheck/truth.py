"""Known truth: a runner that does exactly what it is told, measured by the same means as a model."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from harness.bench.metrics import decode_tps, latency, prefill_tps
from harness.payload.probe_events import RunLog
from harness.runners.events import RunnerLog, parse_runner_output
from harness.selfcheck.result import Check, Finding, broken, holds
from harness.selfcheck.subject import Subject

_LOAD_MS, _PREFILL_MS, _FIRST_MS, _TOKEN_MS = 150, 60, 20, 20
_PROMPT, _TOKENS, _REPEATS = 32, 12, 3
_PEAK_MB = 96
_MIB = 1 << 20
# A timer never rings early; how late it rings depends on how deep the phone's cores sleep.
_EARLY, _LATE = 0.98, 1.25
# Beside what was ordered lie the program itself and its stack.
_PEAK_LEAST, _PEAK_MOST = (_PEAK_MB - 1) * _MIB, (_PEAK_MB + 4) * _MIB
_ATTEMPTS = 3


@dataclass(frozen=True)
class Figure:
    """One figure: what was ordered, what was measured, and between which bounds it has to lie.

    ``digits`` after the decimal point are shown.
    """

    name: str
    unit: str
    ordered: float
    measured: float | None
    least: float
    most: float
    digits: int = 1

    @property
    def agrees(self) -> bool:
        """Whether it lies within the bounds."""
        return self.measured is not None and self.least <= self.measured <= self.most

    def __str__(self) -> str:
        measured = "nothing" if self.measured is None else f"{self.measured:.{self.digits}f}"
        return f"{self.name} {round(self.ordered, self.digits):g} → {measured} {self.unit}".rstrip()


def time_ms(name: str, ordered: float, measured: float | None) -> Figure:
    """Return a time in ms with the bounds of a time."""
    return Figure(name, "ms", ordered, measured, ordered * _EARLY, ordered * _LATE)


def speed(name: str, ordered: float, measured: float | None) -> Figure:
    """Return a speed in tok/s: bounds as those of a time, upside down."""
    return Figure(name, "tok/s", ordered, measured, ordered / _LATE, ordered / _EARLY)


def figures(run: RunLog, told: RunnerLog) -> list[Figure]:
    """Compare what was ordered with what the harness makes of the run: runner's account and the probe's stamps."""
    timed = told.of_kind("timed")
    ttft = latency([generation.ttft_ms for generation in timed if generation.ttft_ms is not None])
    prefill = [value for generation in timed if (value := prefill_tps(generation)) is not None]
    decode = [value for generation in timed if (value := decode_tps(generation)) is not None]
    return [
        time_ms("load", _LOAD_MS, told.load.load_ms if told.load is not None else None),
        time_ms("TTFT", _PREFILL_MS + _FIRST_MS, ttft.p50 if ttft is not None else None),
        speed("prefill", _PROMPT / _PREFILL_MS * 1000, statistics.median(prefill) if prefill else None),
        speed("decode", 1000 / _TOKEN_MS, statistics.median(decode) if decode else None),
        time_ms("generation by the probe's stamps", _generation_ms(), _stamped_ms(run)),
    ]


def _generation_ms() -> float:
    return _PREFILL_MS + _FIRST_MS + (_TOKENS - 1) * _TOKEN_MS


def _stamped_ms(run: RunLog) -> float | None:
    """Return the median time between the ends of two generations, as the probe stamped them."""
    ends = [output.mono_ns for output in run.outputs if output.fd == 1 and b'"generation"' in output.data]
    spans = [(late - early) / 1e6 for early, late in pairwise(ends)]
    return statistics.median(spans) if spans else None


def _orders() -> list[str]:
    wanted = {"load_ms": _LOAD_MS, "prefill_ms": _PREFILL_MS, "first_token_ms": _FIRST_MS, "token_ms": _TOKEN_MS}
    return [word for key, value in wanted.items() for word in ("--synthetic", f"{key}={value}")]


def _command(subject: Subject, *more: str, repeats: int = _REPEATS) -> list[str]:
    argv = [subject.runner, "--model", "none", "--threads", "1", "--prompt-tokens", str(_PROMPT)]
    return [*argv, "--generate-tokens", str(_TOKENS), "--warmups", "1", "--repeats", str(repeats), *_orders(), *more]


def _times(subject: Subject) -> Finding:
    return as_ordered(subject, "truth", _command(subject), figures)


def as_ordered(
    subject: Subject, name: str, argv: list[str], measure: Callable[[RunLog, RunnerLog], list[Figure]]
) -> Finding:
    """Run the synthetic runner until all its figures agree with what was ordered, or it was tried often enough."""
    for attempt in range(1, _ATTEMPTS + 1):
        run = subject.run(f"{name}-{attempt}", subject.spec(name, argv, 60))
        told = parse_runner_output(run.stdout)
        if run.end is None or run.end.exit_code != 0 or told.end is None:
            return broken(f"the synthetic runner did not end as told ({end_of(run)})")
        seen = measure(run, told)
        measured = {figure.name: figure.measured for figure in seen}
        if all(figure.agrees for figure in seen):
            return holds(f"ordered → measured: {', '.join(map(str, seen))}", **measured, attempt=attempt)
    wrong = ", ".join(
        f"{figure} (must be {figure.least:.1f} to {figure.most:.1f})" for figure in seen if not figure.agrees
    )
    return broken(f"ordered → measured: {wrong}; in {_ATTEMPTS} attempts", **measured)


def _peak(subject: Subject) -> Finding:
    argv = _command(subject, "--synthetic", f"peak_mb={_PEAK_MB}", repeats=1)
    run = subject.run("peak", subject.spec("peak", argv, 60))
    if run.end is None or run.end.exit_code != 0:
        return broken(f"the synthetic runner did not end as told ({end_of(run)})")
    kernel, status = run.end.maxrss_bytes, run.peak("hwm_bytes")
    said = f"ordered {_PEAK_MB} MiB; the kernel's peak {_mib(kernel)}, VmHWM in samples {_mib(status)}"
    measured = {"maxrss_bytes": kernel, "hwm_bytes": status}
    if kernel is None or not _PEAK_LEAST <= kernel <= _PEAK_MOST:
        return broken(said, **measured)
    if status is not None and not _PEAK_LEAST <= status <= _PEAK_MOST:
        return broken(said, **measured)
    return holds(said, **measured)


def _mib(count: int | None) -> str:
    return "not told" if count is None else f"{count / _MIB:.1f} MiB"


def end_of(run: RunLog) -> str:
    """Return how a run ended, and the end of what it said about that."""
    if run.end is None:
        return "no end"
    said = run.stderr.decode("utf-8", "replace").strip()[-200:]
    return f"{run.end.why}, exit code {run.end.exit_code}, signal {run.end.signal}" + (f": {said}" if said else "")


CHECKS = (
    Check(
        "known-times",
        "times that were ordered are the times that are measured",
        "if a known truth does not come back, no figure of a model can be believed",
        "let the phone rest and try --only known-times again; if it stays, send us the parcel",
        _times,
    ),
    Check(
        "known-peak",
        "memory that was ordered is the peak that is measured",
        "peak memory decides which model fits which phone",
        "send us the parcel",
        _peak,
    ),
)
