"""What the runs of MNN's own tools have in common: who spoke, on which backend, and how a step failed. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from harness.payload.bundle_manifest import RunnerName
from harness.payload.probe_events import RunLog
from harness.runners.base import Order
from harness.runners.events import Hello, Load, RunnerError
from harness.runners.lines import Line, read_lines

#: MNN's tag in the phone's log.
TAG = "MNNJNI"
# The CPU's runtime describes the cores that it found when it is made.
_CPU_MADE = re.compile(r"The device supports?:? ")
# Speaks for the process that says it, and for no other.
_COMPILED = re.compile(r"Update cache to ")


def lines_of(run: RunLog, log: bytes) -> tuple[Line, ...]:
    """Return the lines of stdout, then those that went to the phone's log."""
    return (*read_lines(run.stdout), *(Line(line.text, TAG, line.text) for line in read_lines(log)))


def hello_of(order: Order, runner: RunnerName, run: RunLog, log: bytes) -> Hello | None:
    """Return who spoke: the tools do not introduce themselves, so that the bundle tells; ``None``: nobody spoke."""
    if not run.stdout.strip() and not log.strip():
        return None
    manifest = order.bundle.manifest
    pid = run.start.pid if run.start is not None else None
    return Hello(runner=runner, engine=manifest.engine, engine_version=manifest.engine_version, pid=pid)


def load_of(order: Order, lines: tuple[Line, ...], **told: object) -> Load:
    """Return what is known of the load.

    That the CPU was asked for and its runtime made is proof enough, as there is nothing that it falls back to. A GPU
    needs evidence of its own: the tools only repeat what was asked for.
    """
    asked = order.cell.backend
    made = next((line.text.strip()[:300] for line in lines if _CPU_MADE.match(line.text)), "")
    if asked == "cpu":
        proof = {"backend_actual": "cpu", "strength": "log" if made else "inferred", "proof": made}
    else:
        proof = {"strength": "none", "proof": f"the tool only repeats that it was asked for {asked}"}
    return Load.model_validate({"backend_requested": asked, **proof, **told})


def as_log(log: bytes) -> bytes:
    """Return lines of the phone's log as the log shows them, so that no reader takes them for the model's words."""
    return b"".join(b"I/" + TAG.encode() + b"( 1): " + line + b"\n" for line in log.splitlines())


def words_of(lines: Mapping[str, tuple[Line, ...]]) -> tuple[str, ...]:
    """Return what the engine said in steps beside the measured one, without what proves only their own backend."""
    said = [line.text for step in lines.values() for line in step if line.text.strip()]
    return tuple(text for text in said if not _COMPILED.match(text))


def step_failed(name: str, run: RunLog | None, shows: str = "the text") -> Iterator[RunnerError]:
    """Yield how a step beside the measured one failed, if it did; it is the one that ``shows`` something."""
    if run is None:
        yield RunnerError(stage=name, message=f"the run that shows {shows} did not take place")
    elif run.end is None or run.end.why != "exit" or run.end.exit_code != 0:
        how = "nobody knows how" if run.end is None else f"{run.end.why}, exit code {run.end.exit_code}"
        last = (run.stderr or run.stdout).decode("utf-8", "replace").strip().splitlines()[-1:] or ["no word"]
        yield RunnerError(stage=name, message=f"the run that shows {shows} ended badly ({how}): {last[0][:300]}")
