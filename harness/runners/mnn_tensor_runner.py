"""``MNNV2Basic`` and ``ModuleBasic`` as runners of ordinary models: they feed samples, time runs and show outputs.

``benchmark`` is in :mod:`harness.runners.benchmark_runner`. All end with 0 after nearly every failure, so that what
they told is held against what was asked for, line by line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.core.reasons import Reason
from harness.payload.bundle import Bundle
from harness.payload.bundle_manifest import RunnerName
from harness.payload.probe_events import RunLog
from harness.plan.matrix import PlannedCell
from harness.plan.model import Plan
from harness.runners.base import MAIN, Order, Step
from harness.runners.events import End, Inference, Load, RunnerError, RunnerLog, TensorFile
from harness.runners.lines import Line
from harness.runners.mnn_tensor_log import Process, read_processes
from harness.runners.mnn_tensor_steps import (
    FORWARD,
    LEVELS,
    cannot_tensor,
    check_name,
    check_step,
    output_file,
    outputs_of,
    tensors_of,
    timed_step,
)
from harness.runners.mnn_tools import BACKEND_CODES
from harness.runners.tensor_text import TEXT
from harness.runners.tool_log import as_log, hello_of, lines_of, load_of, step_failed, words_of

_TEXT = "outputs are read from text of six digits"
_EACH = "each time is of a process of its own, by a clock of whole microseconds"
_DEFINITIONS = {
    "mnnv2basic": (
        f"latency: an input handed over (not the sample's), run with a look at the time around every operator, first "
        f"output fetched; {_EACH}, after one run for the outputs and three to warm up; load: making the session, "
        f"without reading the file; {_TEXT}"
    ),
    "modulebasic": (
        f"latency: run until outputs are there, without handing inputs over and without fetching outputs; {_EACH}, "
        f"after the plan's warm-ups; {_TEXT}"
    ),
}


@dataclass(frozen=True)
class Shown:
    """The outputs that runs showed, how they failed, and what the engine said in those beside the measured one."""

    outputs: tuple[TensorFile, ...] = ()
    errors: tuple[RunnerError, ...] = ()
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class TensorTool:
    """One of the two. ``runner`` is its name as a runner, ``name`` as people know it."""

    runner: RunnerName
    name: str
    wants_prompt_text: bool = False
    no_cold_start: str = "MNN's tools warm the model up before their first figure"

    def cannot(self, bundle: Bundle, cell: PlannedCell, plan: Plan) -> tuple[Reason, str] | None:
        """It measures cells of ordinary models."""
        return cannot_tensor(cell, plan, self.name)

    def steps(self, order: Order) -> tuple[Step, ...]:
        """Return the runs that are timed, on the first sample, then one for each other sample."""
        others = range(1, len(tensors_of(order)[0].samples))
        return timed_step(order, self.runner), *(check_step(order, self.runner, sample) for sample in others)

    def read(self, order: Order, runs: Mapping[str, RunLog], logs: Mapping[str, bytes] | None = None) -> RunnerLog:
        """Return the latencies, the load and the outputs."""
        run, logs = runs[MAIN], logs or {}
        first, *others = tensors_of(order)[0].names
        lines = lines_of(run, logs.get(MAIN, b""))
        processes = read_processes(self.runner, lines)
        times = [time for process in processes for time in process.times_ms]
        unread = tuple(line for process in processes for line in process.unread)
        errors = (*_mismatches(order, processes, len(times)), *_unnamed(order, self.runner, first, processes))
        shown = read_shown(order, self.runner, others, runs, logs)
        whole = len(times) == order.plan.repeats and not errors and not unread
        return RunnerLog(
            hello=hello_of(order, self.runner, run, logs.get(MAIN, b"")),
            loads=(_load(order, lines, processes),) if times else (),
            errors=errors or (shown.errors if whole else ()),
            end=End(status="ok") if whole and not shown.errors else None,
            junk=shown.words,
            unread=unread,
            definition=_DEFINITIONS[self.runner],
            tool=run.stdout + as_log(logs.get(MAIN, b"")),
            inferences=tuple(
                Inference(index=index, kind="timed", sample=first, latency_ms=time) for index, time in enumerate(times)
            ),
            outputs=(*files_of(order, first), *shown.outputs),
        )


MNNV2_BASIC = TensorTool("mnnv2basic", "MNNV2Basic")
MODULE_BASIC = TensorTool("modulebasic", "ModuleBasic")


def read_shown(
    order: Order, runner: RunnerName, samples: Sequence[str], runs: Mapping[str, RunLog], logs: Mapping[str, bytes]
) -> Shown:
    """Return what the runs beside the measured one showed, a run for each sample."""
    outputs: list[TensorFile] = []
    errors: list[RunnerError] = []
    said: dict[str, tuple[Line, ...]] = {}
    for sample in samples:
        step = check_name(sample)
        run = runs.get(step)
        failed = tuple(step_failed(step, run, f"the outputs of sample {sample}"))
        errors += failed
        if run is None or failed:
            continue
        stderr = run.stderr.decode("utf-8", "replace").splitlines()
        said[step] = (*lines_of(run, logs.get(step, b"")), *map(Line, stderr))
        errors += _unnamed(order, runner, sample, read_processes(runner, said[step]))
        outputs += files_of(order, sample)
    return Shown(tuple(outputs), tuple(errors), words_of(said))


def files_of(order: Order, sample: str) -> Iterator[TensorFile]:
    """Yield the outputs of a sample that was run.

    The tools tell no shape, and a file has the name that we gave it: whether it is there, holds numbers, and how many,
    finds out who brings it.
    """
    for at, name in enumerate(outputs_of(tensors_of(order)[0])):
        yield TensorFile(sample=sample, name=name, dtype=TEXT, shape=(), file=output_file(sample, at))


def _unnamed(order: Order, runner: RunnerName, sample: str, processes: Sequence[Process]) -> Iterator[RunnerError]:
    """Yield the outputs that no process names as written, where any process got so far as to have outputs.

    ``ModuleBasic`` goes by the names that it was given, ``MNNV2Basic`` by the engine's, from which that of a single
    output may differ.
    """
    names = outputs_of(tensors_of(order)[0])
    if runner == "modulebasic":
        told = {name for process in processes for name, _ in process.told.written}
    else:
        told = {name for process in processes for name in process.outputs}
        told |= set(names) if len(names) == len(told) == 1 else set()
    if not told and not any(process.told.latencies for process in processes):
        return
    for name in names:
        if name not in told:
            message = f"sample {sample}: {name} is not among the outputs that it names"
            yield RunnerError(stage="output", message=message)


def _mismatches(order: Order, processes: Sequence[Process], timed: int) -> Iterator[RunnerError]:
    """Yield what is not as it was asked for, as far as it is told, and how many samples are missing."""
    cell, asked = order.cell, order.plan.repeats
    for number, process in enumerate(processes, start=1):
        told = process.told
        pairs = (
            ("backend number", told.forward_type, FORWARD[cell.backend]),
            ("precision", told.precision, LEVELS[cell.precision]),
            ("memory", told.memory, LEVELS[cell.memory]),
        )
        wrong = [f"{key} {told} instead of {wanted}" for key, told, wanted in pairs if told not in (None, wanted)]
        if wrong:
            yield RunnerError(stage="output", message=f"process {number} tells {', '.join(wrong)}")
    if timed and timed != asked:
        yield RunnerError(stage="output", message=f"{timed} times are told, asked were {asked}")


def _load(order: Order, lines: tuple[Line, ...], processes: Sequence[Process]) -> Load:
    """Return the last load. Where one process's session came out on another backend, that one is told."""
    load = load_of(order, lines)
    loads_ms = [process.load_ms for process in processes if process.load_ms is not None]
    made = [(name, process.session) for process in processes if (name := _made(process)) is not None]
    proof = next(((name, line) for name, line in made if name != order.cell.backend), made[-1] if made else None)
    known = {} if proof is None else {"backend_actual": proof[0], "strength": "engine", "proof": proof[1]}
    return load.model_copy(update={"load_ms": loads_ms[-1] if loads_ms else None, **known})


def _made(process: Process) -> str | None:
    code = process.told.backend_type
    return None if code is None else BACKEND_CODES.get(code, f"type {code}")
