"""``benchmark`` as a runner: a folder with a link to the model for each repeat, so that each row is a sample.

It feeds nothing and shows nothing. So that its figures have their proof, ``ModuleBasic``, ``MNNV2Basic`` or
``farm_runner`` of the same bundle is run beside it, on every sample.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from harness.core.errors import ConfigError, HarnessError
from harness.core.reasons import Reason
from harness.payload.bundle import Bundle
from harness.payload.bundle_manifest import RunnerName
from harness.payload.probe_events import RunLog
from harness.plan.matrix import PlannedCell
from harness.plan.model import Plan
from harness.runners.base import MAIN, Order, Step, library_env, outputs_dir, step_dir
from harness.runners.events import End, Inference, RunnerError, RunnerLog, parse_runner_output
from harness.runners.farm_runner import FarmRunner
from harness.runners.lines import Line
from harness.runners.mnn_tensor_log import Process, read_processes
from harness.runners.mnn_tensor_runner import Shown, read_shown
from harness.runners.mnn_tensor_steps import (
    FORWARD,
    LEVELS,
    cannot_tensor,
    check_session,
    check_step,
    model_path,
    outputs_folder,
    program_path,
    tensors_of,
)
from harness.runners.own_model import program_of
from harness.runners.tool_log import as_log, hello_of, lines_of, load_of, step_failed, words_of

_FOLDER = "models"
# The last one, since those of older bundles run no such models.
_SHOWING: tuple[RunnerName, ...] = ("modulebasic", "mnnv2basic", "farm_runner")
_CHECK = "check"
_DEFINITION = (
    "latency: an input handed over (not the sample's), run, output fetched; each time is of a load of its own, by a "
    "clock of whole microseconds, after the plan's warm-ups; power=high; how long it loads is not told; the outputs "
    "are of another program of the same build"
)


class Benchmark:
    """MNN's ``benchmark``."""

    wants_prompt_text = False
    no_cold_start = "benchmark warms the model up before its first figure and does not tell how long it loads"

    def cannot(self, bundle: Bundle, cell: PlannedCell, plan: Plan) -> tuple[Reason, str] | None:
        """It measures cells of ordinary models where another program of the bundle shows what comes out."""
        if cell.memory != "normal":
            return Reason.BAD_PLAN, f"benchmark runs with memory normal, not {cell.memory}: add --memory normal"
        if _shower(bundle) is None:
            return Reason.BUNDLE_MISMATCH, (
                f"benchmark feeds no input and shows no output, and bundle {bundle.manifest.name} has no program that "
                "does: import it again with ModuleBasic.out beside benchmark.out"
            )
        return cannot_tensor(cell, plan, "benchmark")

    def steps(self, order: Order) -> tuple[Step, ...]:
        """Return the run of all rows, then one that shows outputs for each sample."""
        shower, samples = _shower_of(order), range(len(tensors_of(order)[0].samples))
        main = Step(MAIN, _command(order), outputs_folder(order), _links(order), library_env(order), speaks=False)
        if shower == "farm_runner":
            return main, _farm_runner_step(order)
        return main, *(check_step(order, shower, sample) for sample in samples)

    def read(self, order: Order, runs: Mapping[str, RunLog], logs: Mapping[str, bytes] | None = None) -> RunnerLog:
        """Return the rows, each a timed inference, and the outputs beside."""
        run, logs = runs[MAIN], logs or {}
        samples = tensors_of(order)[0].names
        lines = lines_of(run, logs.get(MAIN, b""))
        processes = read_processes("benchmark", lines)
        times = [time for process in processes for time in process.times_ms]
        unread = tuple(line for process in processes for line in process.unread)
        errors = tuple(_mismatches(order, processes))
        shower = _shower_of(order)
        if shower == "farm_runner":
            shown = _of_farm_runner(runs.get(_CHECK))
        else:
            shown = read_shown(order, shower, samples, runs, logs)
        whole = len(times) == order.plan.repeats and not errors and not unread
        return RunnerLog(
            hello=hello_of(order, "benchmark", run, logs.get(MAIN, b"")),
            loads=(load_of(order, lines),) if times else (),
            errors=errors or (shown.errors if whole else ()),
            end=End(status="ok") if whole and not shown.errors else None,
            junk=shown.words,
            unread=unread,
            definition=_DEFINITION,
            tool=run.stdout + as_log(logs.get(MAIN, b"")),
            inferences=tuple(
                Inference(index=index, kind="timed", sample=samples[0], latency_ms=time)
                for index, time in enumerate(times)
            ),
            outputs=shown.outputs,
        )


def _command(order: Order) -> tuple[str, ...]:
    cell = order.cell
    argv = [program_path(order, "benchmark"), _FOLDER, "1", str(order.plan.warmups), str(FORWARD[cell.backend])]
    return (*argv, str(cell.threads), str(LEVELS[cell.precision]))


def _links(order: Order) -> dict[str, str]:
    """Return a link for each repeat. It takes every file in the folder for a model, so that weights cannot lie there.

    Raises:
        ConfigError: it cannot run such a model.
    """
    _, model = tensors_of(order)
    check_session(model, "benchmark")
    apart = any(file.path == f"{model.file}.weight" for file in order.model.folder.files)
    open_shape = any(extent < 0 for one in model.inputs for extent in one.shape)
    for wrong, what in (
        (apart, "whose weights lie in a file of their own: it does not find them"),
        (open_shape, "with open dimensions: it gives its input no shape"),
    ):
        if wrong:
            raise ConfigError(
                f"benchmark cannot run a model {what}",
                remedy="use modulebasic, mnnv2basic or farm_runner",
                reason=Reason.BAD_PLAN,
            )
    return {f"{_FOLDER}/{_row(number)}": model_path(order) for number in range(order.plan.repeats)}


def _row(number: int) -> str:
    return f"{number:04d}.mnn"


def _shower(bundle: Bundle) -> RunnerName | None:
    """Return the program of a bundle that shows what comes out; of several inputs ``MNNV2Basic`` feeds only one."""
    return next((name for name in _SHOWING if program_of(bundle, name) is not None), None)


def _shower_of(order: Order) -> RunnerName:
    shower = _shower(order.bundle)
    if shower is None:
        raise HarnessError(f"bundle {order.bundle.manifest.name} shows no outputs, and was not refused")
    return shower


def _farm_runner_step(order: Order) -> Step:
    """Return a run of our runner that times nothing, and writes its outputs where they are looked for."""
    step = Step(_CHECK, ())
    folder = step_dir(order.work_dir, step)
    nothing = order.plan.model_copy(update={"warmups": 0, "repeats": 0})
    ours = replace(order, bundle=order.bundle.with_runner("farm_runner"), work_dir=folder, plan=nothing)
    [alone] = FarmRunner().steps(ours)
    links = {posixpath.basename(outputs_dir(folder)): outputs_dir(order.work_dir)}
    return Step(_CHECK, alone.argv, alone.files, links, library_env(order))


def _of_farm_runner(run: RunLog | None) -> Shown:
    """Return what our runner showed."""
    failed = tuple(step_failed(_CHECK, run, "the outputs"))
    if run is None:
        return Shown(errors=failed)
    told = parse_runner_output(run.stdout)
    said = (*told.junk, *run.stderr.decode("utf-8", "replace").splitlines())
    return Shown(told.outputs, told.errors or failed, words_of({_CHECK: tuple(map(Line, said))}))


def _mismatches(order: Order, processes: Sequence[Process]) -> Iterator[RunnerError]:
    """Yield what is not as it was asked for, as far as it is told, and which rows are missing or not ours."""
    cell = order.cell
    for process in processes:
        told = process.told
        pairs = (
            ("backend", told.forward_name, cell.backend),
            ("threads", told.threads, cell.threads),
            ("precision", told.precision, LEVELS[cell.precision]),
        )
        wrong = [f"{key} {value} instead of {wanted}" for key, value, wanted in pairs if value not in (None, wanted)]
        if wrong:
            yield RunnerError(stage="output", message=f"it tells {', '.join(wrong)}")
    rows = sorted(row.name for process in processes for row in process.told.latencies)
    if rows and rows != [_row(number) for number in range(order.plan.repeats)]:
        told_rows = f"{len(rows)} rows are told ({', '.join(rows[:3])}, …)"
        yield RunnerError(stage="output", message=f"{told_rows}, asked were {order.plan.repeats} of the model")
