"""Rules about how a run ended: by itself, by whose hand, and whether the probe's account of it is whole."""

from __future__ import annotations

import signal
from collections.abc import Iterator

from harness.bench.engine_log import find_link_errors, last_lines
from harness.bench.evidence import Evidence, Objection
from harness.bench.phone_log import memory_kill
from harness.core.errors import storage_reason
from harness.core.reasons import Reason
from harness.payload.probe_events import RunLog
from harness.plan.golden import golden_allowance_s

# Below this share of memory left, SIGKILL is the kernel's out-of-memory killer and nobody else's.
_SCARCE_MEMORY = 0.05


def ended_by_itself(evidence: Evidence) -> Iterator[Objection]:
    """The run, and each beside it that shows its text, ended by itself, without a signal."""
    for run in (evidence.run, *evidence.beside):
        yield from _ended(evidence, run)


def _ended(evidence: Evidence, run: RunLog) -> Iterator[Objection]:
    end = run.end
    if end is None:
        yield Objection(Reason.HARNESS_ERROR, "the probe did not say how the run ended")
    elif end.why == "spawn_failed":
        yield Objection(Reason.LINK_ERROR, f"the runner could not be started ({end.errno})", last_lines(run.stderr))
    elif end.why == "deadline":
        limit_s = evidence.plan.cell_timeout_s + golden_allowance_s(evidence.cell, evidence.plan)
        yield Objection(Reason.HANG, f"no end after {limit_s:g} s", last_lines(run.stderr))
    elif end.why == "silence":
        silent = f"no output for {evidence.plan.silence_s:g} s"
        yield Objection(Reason.HANG, silent, last_lines(run.stderr))
    elif end.why == "trip":
        zone = f"zone {end.trip.type} read {end.trip.milli_c}" if end.trip is not None else "a zone was too hot"
        yield Objection(Reason.THERMAL_TRIP, f"ended to protect the phone: {zone}")
    elif end.why == "lease_lost":
        yield Objection(Reason.LEASE_LOST, "the lease on the phone was lost during the run")
    elif end.why != "exit":
        yield Objection(Reason.ADB_ERROR, f"the run was ended from outside ({end.why})")
    elif end.signal is not None:
        yield _killed(evidence, run, end.signal)
    elif end.exit_code is None:
        yield Objection(Reason.HARNESS_ERROR, "the probe told neither an exit code nor a signal")


def _killed(evidence: Evidence, run: RunLog, number: int) -> Objection:
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    start = run.start
    killed = memory_kill(evidence.phone_log, start.pid) if start is not None and start.pid is not None else None
    if number == signal.SIGKILL and killed is not None:
        return Objection(Reason.OUT_OF_MEMORY, f"killed by {name}: the phone ran out of memory", killed)
    said = last_lines(run.stderr)
    least = run.min_available_bytes
    scarce = least is not None and evidence.ram_bytes is not None and least < _SCARCE_MEMORY * evidence.ram_bytes
    if number == signal.SIGKILL and scarce:
        return Objection(Reason.OUT_OF_MEMORY, f"killed by {name} with {least} bytes left", said)
    refused = find_link_errors(run.stderr)
    if number == signal.SIGABRT and refused and evidence.told.hello is None:
        # Android's linker aborts after it said why it cannot load a program.
        return Objection(Reason.LINK_ERROR, refused[0], refused[-1])
    reason = Reason.ILLEGAL_INSTRUCTION if number == signal.SIGILL else Reason.CRASH
    return Objection(reason, f"killed by {name}", said)


def account_is_complete(evidence: Evidence) -> Iterator[Objection]:
    """No event of the probe's account is missing: one that is might have held the engine's warning."""
    for run in (evidence.run, *evidence.beside):
        yield from _gaps(run)


def _gaps(run: RunLog) -> Iterator[Objection]:
    if run.end is None:
        return
    if run.start is None:
        yield Objection(Reason.HARNESS_ERROR, "the probe did not say when the run began")
        return
    here = 2 + (run.sensors is not None) + len(run.samples) + len(run.outputs)
    told = run.end.seq - run.start.seq + 1
    if here != told:
        # What could not be kept on the phone is lost when nobody reads along.
        full = storage_reason(run.end.file_error or "")
        why = f" (on the phone: {run.end.file_error})" if run.end.file_error else ""
        yield Objection(full or Reason.HARNESS_ERROR, f"{here} of the probe's {told} events arrived{why}")
