"""Whether a cell's figures may be believed: small named rules, each with its evidence.

:func:`judge` asks them in an order in which an earlier one explains the later ones (a crash explains missing tokens).
The first that objects gives the verdict; what the others found is kept beside it.
"""

from __future__ import annotations

import math
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from harness.bench.engine_log import find_errors, find_fallback, find_link_errors
from harness.bench.metrics import decode_tps, prefill_tps, speed
from harness.core.reasons import Reason
from harness.payload.probe_events import RunLog
from harness.plan.matrix import PlannedCell
from harness.plan.model import Plan
from harness.runners.events import Generation, RunnerLog

# No phone's memory comes near: LPDDR5X on four channels gives about 85 GB/s, a last-level cache a few hundred.
IMPOSSIBLE_BYTES_PER_S = 1e12
# Times are taken in two processes: a generation's own times may exceed its run's wall time by rounding only.
_CLOCK_SLACK_MS = 50.0
# CLOCK_BOOTTIME runs during sleep, CLOCK_MONOTONIC does not; both are read one after the other.
_SLEEP_MS = 100.0
# Below this share of memory left, SIGKILL is the kernel's out-of-memory killer and nobody else's.
_SCARCE_MEMORY = 0.05
_DEGENERATE_TOKENS = 12
_LONGEST_LOOP = 3
_THROTTLED_CAP = 0.97


@dataclass(frozen=True)
class Evidence:
    """All that is known of a cell that ran. ``run`` is the probe's account, ``told`` the runner's own."""

    cell: PlannedCell
    plan: Plan
    run: RunLog
    told: RunnerLog
    weight_bytes: int
    ram_bytes: int | None
    started_hot: str | None = None

    @property
    def timed(self) -> tuple[Generation, ...]:
        """The timed generations."""
        return self.told.of_kind("timed")

    @property
    def engine_log(self) -> bytes:
        """Everything the engine printed, wherever it went."""
        return self.run.stderr + b"\n" + "\n".join(self.told.junk).encode()


@dataclass(frozen=True)
class Objection:
    """Why a cell is not ``ok``: the reason, and the evidence in one sentence."""

    reason: Reason
    detail: str
    evidence: str = ""


Rule = Callable[[Evidence], Iterator[Objection]]


def judge(evidence: Evidence) -> list[Objection]:
    """Return every objection, the one that decides first; empty when the figures may be believed."""
    return [objection for rule in RULES for objection in rule(evidence)]


def ended_by_itself(evidence: Evidence) -> Iterator[Objection]:
    """The run ended by itself, without a signal."""
    end = evidence.run.end
    if end is None:
        yield Objection(Reason.HARNESS_ERROR, "the probe did not say how the run ended")
    elif end.why == "spawn_failed":
        yield Objection(Reason.LINK_ERROR, f"the runner could not be started ({end.errno})", _tail(evidence.run.stderr))
    elif end.why == "deadline":
        yield Objection(Reason.HANG, f"no end after {evidence.plan.cell_timeout_s:g} s", _tail(evidence.run.stderr))
    elif end.why == "silence":
        yield Objection(Reason.HANG, "no output for too long", _tail(evidence.run.stderr))
    elif end.why == "trip":
        zone = f"zone {end.trip.type} read {end.trip.milli_c}" if end.trip is not None else "a zone was too hot"
        yield Objection(Reason.THERMAL_TRIP, f"ended to protect the phone: {zone}")
    elif end.why == "lease_lost":
        yield Objection(Reason.LEASE_LOST, "the lease on the phone was lost during the run")
    elif end.why != "exit":
        yield Objection(Reason.ADB_ERROR, f"the run was ended from outside ({end.why})")
    elif end.signal is not None:
        yield _killed(evidence, end.signal)


def _killed(evidence: Evidence, number: int) -> Objection:
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    least = evidence.run.min_available_bytes
    scarce = least is not None and evidence.ram_bytes is not None and least < _SCARCE_MEMORY * evidence.ram_bytes
    if number == signal.SIGKILL and scarce:
        return Objection(Reason.OUT_OF_MEMORY, f"killed by {name} with {least} bytes left", _tail(evidence.run.stderr))
    reason = Reason.ILLEGAL_INSTRUCTION if number == signal.SIGILL else Reason.CRASH
    return Objection(reason, f"killed by {name}", _tail(evidence.run.stderr))


def runner_had_no_error(evidence: Evidence) -> Iterator[Objection]:
    """Neither the runner nor the linker reported an error, and the exit code agrees."""
    for error in evidence.told.errors:
        if error.stage == "fallback":
            continue
        reason = {"config": Reason.BAD_PLAN, "load": Reason.LOAD_ERROR}.get(error.stage, Reason.ENGINE_ERROR)
        yield Objection(reason, f"{error.stage}: {error.message}", _tail(evidence.run.stderr))
    refused = find_link_errors(evidence.run.stderr)
    if refused:
        yield Objection(Reason.LINK_ERROR, refused[0], refused[-1])
    end = evidence.run.end
    if end is not None and end.exit_code and not evidence.told.errors and not refused:
        said = _tail(evidence.run.stderr)
        yield Objection(Reason.ENGINE_ERROR, f"the runner ended with exit code {end.exit_code}", said)


def runner_said_something(evidence: Evidence) -> Iterator[Objection]:
    """A run that ended well left readable events to its end."""
    end = evidence.run.end
    if end is None or end.why != "exit" or end.exit_code != 0:
        return
    if not evidence.run.stdout.strip():
        yield Objection(Reason.SILENT_EXIT, "exit code 0 without a word", _tail(evidence.run.stderr))
    elif evidence.told.hello is None or evidence.told.load is None or evidence.told.end is None:
        yield Objection(Reason.UNPARSED_OUTPUT, "hello, load or end is missing in the runner's output")


def backend_was_used(evidence: Evidence) -> Iterator[Objection]:
    """The engine ran the backend that was asked for, and something proves it."""
    asked = evidence.cell.backend
    mark = find_fallback(evidence.engine_log)
    load = evidence.told.load
    if mark is not None and mark.used != asked:
        yield Objection(Reason.BACKEND_FALLBACK, f"asked for {asked}, ran on {mark.used}", mark.line)
    elif load is None:
        return
    elif load.backend_actual is not None and load.backend_actual != asked:
        yield Objection(Reason.BACKEND_FALLBACK, f"asked for {asked}, ran on {load.backend_actual}", load.proof)
    elif load.backend_actual is None or load.strength not in ("engine", "log"):
        yield Objection(Reason.BACKEND_UNPROVEN, f"asked for {asked}; proof is {load.strength}", load.proof)


def engine_reported_no_error(evidence: Evidence) -> Iterator[Objection]:
    """The engine's log holds no error, whatever the exit code was."""
    if evidence.told.errors:
        return
    errors = find_errors(evidence.engine_log)
    if errors:
        gpu = any("CL ERROR" in line or "OpenCL error" in line for line in errors)
        yield Objection(Reason.GPU_DRIVER_ERROR if gpu else Reason.ENGINE_ERROR, errors[0], "\n".join(errors[:5]))


def tokens_were_generated(evidence: Evidence) -> Iterator[Objection]:
    """Every repeat is there and generated what was asked: never nominal count over time."""
    wanted, got = evidence.plan.repeats, len(evidence.timed)
    load = evidence.told.load
    if load is None or evidence.told.errors:
        return
    if got < wanted:
        yield Objection(Reason.TOKEN_COUNT_SHORT, f"{got} of {wanted} timed generations")
    for timed in evidence.timed:
        counted = min(timed.generated_tokens, len(timed.token_ids) or timed.generated_tokens)
        if counted < evidence.cell.generate_tokens or timed.prompt_tokens != evidence.cell.prompt_tokens:
            yield Objection(
                Reason.TOKEN_COUNT_SHORT,
                f"generation {timed.index}: {timed.prompt_tokens} prompt and {counted} generated tokens, asked were "
                f"{evidence.cell.prompt_tokens} and {evidence.cell.generate_tokens} (finish: {timed.finish})",
            )
            return


def speed_is_possible(evidence: Evidence) -> Iterator[Objection]:
    """Times are finite, positive, complete, within the run's wall time, and within physics."""
    for timed in evidence.timed:
        times = (timed.prefill_ms, timed.ttft_ms, *timed.token_ms)
        wrong = [value for value in times if not math.isfinite(value) or value <= 0]
        if wrong or len(timed.token_ms) != timed.generated_tokens - 1 or timed.ttft_ms < timed.prefill_ms:
            yield Objection(
                Reason.IMPLAUSIBLE_SPEED,
                f"generation {timed.index}: {len(wrong)} times are not positive and finite; "
                f"{len(timed.token_ms)} token times for {timed.generated_tokens} tokens; "
                f"TTFT {timed.ttft_ms:g} ms, prefill {timed.prefill_ms:g} ms",
            )
            return
        rate = decode_tps(timed)
        if rate is not None and rate * evidence.weight_bytes > IMPOSSIBLE_BYTES_PER_S:
            yield Objection(
                Reason.IMPLAUSIBLE_SPEED,
                f"{rate:.0f} tok/s would read {rate * evidence.weight_bytes / 1e9:.0f} GB of weights a second",
            )
            return
    claimed_ms = sum(g.ttft_ms + sum(g.token_ms) for g in evidence.told.generations)
    start, end = evidence.run.start, evidence.run.end
    if start is not None and end is not None:
        wall_ms = (end.mono_ns - start.mono_ns) / 1e6
        if claimed_ms > wall_ms + _CLOCK_SLACK_MS:
            yield Objection(
                Reason.IMPLAUSIBLE_SPEED, f"generations claim {claimed_ms:.0f} ms, the whole run took {wall_ms:.0f} ms"
            )


def output_is_language(evidence: Evidence) -> Iterator[Objection]:
    """The text is neither empty nor one short loop."""
    for generation in evidence.told.generations:
        if generation.kind == "warmup":
            continue
        if not generation.text.strip(" \t\r\n\ufffd\0"):
            yield Objection(
                Reason.OUTPUT_DEGENERATE,
                f"generation {generation.index} ({generation.kind}): {generation.generated_tokens} tokens, no text",
            )
            return
        loop = repeated_loop(generation.token_ids)
        if loop:
            yield Objection(
                Reason.OUTPUT_DEGENERATE,
                f"generation {generation.index} ({generation.kind}) repeats {len(loop)} token(s) to its end",
                generation.text[:200],
            )
            return


def repeated_loop(token_ids: tuple[int, ...]) -> tuple[int, ...]:
    """Return the loop of at most three tokens that fills a whole generation but its first tokens, else ``()``."""
    for length in range(1, _LONGEST_LOOP + 1):
        body = token_ids[len(token_ids) // 4 :]
        if len(body) < max(_DEGENERATE_TOKENS, 3 * length):
            continue
        if all(a == b for a, b in zip(body, body[length:], strict=False)):
            return body[:length]
    return ()


def phone_was_steady(evidence: Evidence) -> Iterator[Objection]:
    """The phone started cool, did not sleep and did not lower its clocks."""
    if evidence.started_hot:
        yield Objection(Reason.HOT_START, evidence.started_hot)
    start, end = evidence.run.start, evidence.run.end
    if start is not None and end is not None:
        slept_ms = ((end.boot_ns - start.boot_ns) - (end.mono_ns - start.mono_ns)) / 1e6
        if slept_ms > _SLEEP_MS:
            yield Objection(Reason.SUSPENDED, f"the phone slept {slept_ms:.0f} ms during the run")
    fell = lowest_cap_ratio(evidence.run)
    if fell is not None and fell < _THROTTLED_CAP:
        yield Objection(Reason.THROTTLED, f"the clock's cap fell to {fell:.0%} of what it was at the start")


def lowest_cap_ratio(run: RunLog) -> float | None:
    """Return the lowest cap of any core's clock relative to its own at the start; ``None`` when none is readable."""
    caps = [sample.cap_khz for sample in run.samples if any(sample.cap_khz)]
    if not caps:
        return None
    first = caps[0]
    ratios = [now / then for row in caps for now, then in zip(row, first, strict=False) if now and then]
    return min(ratios) if ratios else None


def repeats_agree(evidence: Evidence) -> Iterator[Objection]:
    """The repeats spread no more than the plan allows."""
    limit = evidence.plan.cv_limit
    for name, rate in (("decode", decode_tps), ("prefill", prefill_tps)):
        summary = speed([value for timed in evidence.timed if (value := rate(timed)) is not None])
        if limit is not None and summary is not None and summary.cv is not None and summary.cv > limit:
            yield Objection(Reason.NOISY, f"{name} speed spreads {summary.cv:.1%} (limit {limit:.1%})")
            return


RULES: tuple[Rule, ...] = (
    ended_by_itself,
    backend_was_used,
    runner_had_no_error,
    runner_said_something,
    engine_reported_no_error,
    tokens_were_generated,
    speed_is_possible,
    output_is_language,
    phone_was_steady,
    repeats_agree,
)


def _tail(log: bytes, lines: int = 5) -> str:
    return "\n".join(log.decode("utf-8", "replace").strip().splitlines()[-lines:])[-1000:]
