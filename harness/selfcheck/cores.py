"""Affinity: a run that is told its cores stays on them."""

from __future__ import annotations

from dataclasses import dataclass

from harness.payload.probe_events import RunLog
from harness.selfcheck.result import Check, Finding, NotCheckableError, broken, holds
from harness.selfcheck.subject import Subject

_SPIN_MS = 700
_INTERVAL_MS = 20
_FIELD = "Cpus_allowed_list:"


@dataclass(frozen=True)
class Stay:
    """How a run kept to its core: in how many samples it was looked at, and what was wrong first."""

    samples: int
    wrong: str


def judge_stay(log: RunLog, core: int) -> Stay:
    """Read off the samples whether a run that asked for ``core`` may run there only, and ran there only. Pure."""
    start_ns = log.start.mono_ns if log.start is not None else 0
    seen = [sample for sample in log.samples if sample.cpus_allowed is not None or sample.cpu is not None]
    for sample in seen:
        at_s = (sample.mono_ns - start_ns) / 1e9
        if sample.cpus_allowed != str(core):
            return Stay(len(seen), f"after {at_s:.2f} s it may run on {sample.cpus_allowed}, not on {core} alone")
        if sample.cpu != core:
            return Stay(len(seen), f"after {at_s:.2f} s it runs on core {sample.cpu}, not on {core}")
    return Stay(len(seen), "")


def cores_of(status: str) -> list[int]:
    """Return the cores in the ``Cpus_allowed_list`` of a ``/proc/PID/status``; empty when it has none."""
    line = next((line for line in status.splitlines() if line.startswith(_FIELD)), "")
    cores: list[int] = []
    for part in line.removeprefix(_FIELD).strip().split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (last or first).isdigit():
            cores += range(int(first), int(last or first) + 1)
    return cores


def _affinity(subject: Subject) -> Finding:
    allowed = cores_of(subject.text("cat", "/proc/self/status"))
    if len(allowed) < 2:
        raise NotCheckableError(f"a shell may run on {len(allowed)} core(s) only: there is nothing to choose")
    tried = []
    for core in (allowed[0], allowed[-1]):
        argv = [subject.runner, "--model", "none", "--warmups", "0", "--repeats", "1", "--generate-tokens", "1"]
        argv += ["--synthetic", "mode=spin", "--synthetic", f"prefill_ms={_SPIN_MS}"]
        spec = subject.spec("affinity", argv, 30, cpus=str(core), interval_ms=_INTERVAL_MS)
        log = subject.run(f"affinity-{core}", spec)
        if log.end is None or log.end.exit_code != 0:
            why = (log.end.errno or log.end.why) if log.end is not None else "no end"
            return broken(f"a run on core {core} was refused or failed ({why})", core=core)
        stay = judge_stay(log, core)
        if stay.wrong or not stay.samples:
            return broken(f"a run was told to stay on core {core}: {stay.wrong or 'no sample tells'}", core=core)
        tried.append(f"core {core}, seen there in {stay.samples} of {stay.samples} samples")
    return holds("; ".join(tried), cores=[allowed[0], allowed[-1]])


CHECKS = (
    Check(
        "affinity",
        "a run that is told its cores stays on them",
        "figures by core would be of other cores; Android's cpusets may take the affinity away",
        "do not believe figures of this phone by core; keep its screen on, and send us the parcel",
        _affinity,
    ),
)
