"""Runs of MNN's tools for single models, as steps of a cell: what lies where on the phone, and their commands. Pure.

Each run that is timed is a process of its own that times one run, so that each of its figures is a sample. The tools
read inputs from text files, and what they write is caught by links that lie where they write it.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass

from harness.core.errors import ConfigError
from harness.core.reasons import Reason
from harness.payload.bundle_manifest import RunnerName
from harness.payload.tensor_case import TensorCase
from harness.payload.tensor_model import TensorModel
from harness.plan.matrix import PlannedCell
from harness.plan.model import Plan
from harness.runners.base import MAIN, Order, Step, library_env, outputs_dir
from harness.runners.own_model import program_of
from harness.runners.tensor_text import text_of

#: ``MNNForwardType`` and ``BackendConfig``'s numbers.
FORWARD = {"cpu": 0, "opencl": 3, "vulkan": 7}
LEVELS = {"normal": 0, "high": 1, "low": 2}
_AGAIN = 'n=$1; shift; while [ "$n" -gt 0 ]; do "$@" || exit $?; n=$((n - 1)); done'
_INPUT, _OUTPUT = "input", "output"
_MOST_NAME_BYTES = 200


@dataclass(frozen=True)
class Run:
    """One run of a tool, in a folder of its own: its command, what lies there, and what it writes there, in order."""

    argv: tuple[str, ...]
    files: Mapping[str, bytes]
    links: Mapping[str, str]
    writes: tuple[str, ...]


def tensors_of(order: Order) -> tuple[TensorCase, TensorModel]:
    """Return what an order feeds, and its model.

    Raises:
        ConfigError: its model is a language model.
    """
    if order.tensors is None or order.model.tensor is None:
        raise ConfigError(
            f"{order.bundle.runner} runs models that are no language models",
            remedy="take a plan of kind tensor, or another --runner",
            reason=Reason.BAD_PLAN,
        )
    return order.tensors, order.model.tensor


def outputs_of(case: TensorCase) -> tuple[str, ...]:
    """Return the names of the model's outputs, in the order in which they are asked for."""
    return tuple(case.expected[0])


def cannot_tensor(cell: PlannedCell, plan: Plan, tool: str) -> tuple[Reason, str] | None:
    """Return why none of the tools can run a cell."""
    if not cell.tensor:
        return Reason.BUNDLE_MISMATCH, f"{tool} runs models that are no language models: take a plan of kind tensor"
    if cell.engine:
        return Reason.BAD_PLAN, f"{tool} takes no engine keys ({', '.join(sorted(cell.engine))}): use farm_runner"
    return None


def check_session(model: TensorModel, tool: str) -> None:
    """Refuse a model that a tool cannot run since it goes by MNN's sessions.

    Raises:
        ConfigError: only MNN's Module API can run it.
    """
    if not model.by_session:
        raise ConfigError(
            f"{tool} cannot run a model that only MNN's Module API can run",
            remedy="use modulebasic or farm_runner",
            reason=Reason.BAD_PLAN,
        )


def timed_step(order: Order, runner: RunnerName) -> Step:
    """Return the step that is measured: the first sample, as many processes as the plan has repeats."""
    step = check_step(order, runner, 0, loops=1)
    argv = ("sh", "-c", _AGAIN, "sh", str(order.plan.repeats), *step.argv)
    return Step(MAIN, argv, {**step.files, **outputs_folder(order)}, step.links, step.env, speaks=False)


def check_step(order: Order, runner: RunnerName, sample: int, loops: int = 0) -> Step:
    """Return a run that shows what comes out of a sample, by number, timed ``loops`` times.

    Raises:
        ConfigError: the tool cannot feed that sample to that model.
    """
    name = tensors_of(order)[0].names[sample]
    run = (_module_basic if runner == "modulebasic" else _mnnv2basic)(order, sample, loops)
    caught = {file: f"{outputs_dir(order.work_dir)}/{output_file(name, at)}" for at, file in enumerate(run.writes)}
    return Step(check_name(name), run.argv, run.files, {**run.links, **caught}, library_env(order), speaks=False)


def check_name(sample: str) -> str:
    """Return the name of the step that shows what comes out of a sample."""
    return f"check-{sample}"


def output_file(sample: str, output: int) -> str:
    """Return the name of the file with an output, by number, of a sample."""
    return f"{sample}.{output}.txt"


def outputs_folder(order: Order) -> dict[str, bytes]:
    """Return the file that makes the cell's folder of outputs; the measured step brings it, first of all."""
    return {f"{posixpath.basename(outputs_dir(order.work_dir))}/.keep": b""}


def model_path(order: Order) -> str:
    """Return the model's path on the phone."""
    return f"{order.model_dir}/{tensors_of(order)[1].file}"


def program_path(order: Order, runner: RunnerName) -> str:
    """Return the path of a runner's program on the phone.

    Raises:
        ConfigError: the bundle has none.
    """
    program = program_of(order.bundle, runner)
    if program is None:
        raise ConfigError(
            f"bundle {order.bundle.manifest.name} has no {runner}",
            remedy="import it again with that program",
            reason=Reason.BUNDLE_MISMATCH,
        )
    return f"{order.bundle_dir}/{program}"


def _mnnv2basic(order: Order, sample: int, loops: int) -> Run:
    """It takes ``input_0.txt`` from beside the program, and writes outputs there: so a link to it stands here."""
    case, model = tensors_of(order)
    check_session(model, "MNNV2Basic")
    if len(case.inputs[sample]) != 1:
        raise ConfigError(
            f"MNNV2Basic feeds one input and leaves the model's other {len(case.inputs[sample]) - 1} at zero",
            remedy="use modulebasic or farm_runner",
            reason=Reason.BAD_PLAN,
        )
    [(name, array)] = case.inputs[sample].items()
    cell, program = order.cell, program_path(order, "mnnv2basic")
    here = posixpath.basename(program)
    argv = [f"./{here}", model_path(order), str(loops), "0", str(FORWARD[cell.backend]), str(cell.threads)]
    argv += [str(_mask(cell)), *(["x".join(map(str, array.shape))] if array.ndim else [])]
    names = outputs_of(case)
    # The first output, whatever it is called, is the only one then.
    writes = ["output.txt"] if len(names) == 1 else [f"{_OUTPUT}/{_as_path(name)}.txt" for name in names]
    return Run(tuple(argv), {"input_0.txt": text_of(array, name)}, {here: program}, tuple(writes))


def _module_basic(order: Order, sample: int, loops: int) -> Run:
    """It takes a folder with ``input.json`` and a text for each input, and numbers what it writes."""
    case, _ = tensors_of(order)
    cell, names = order.cell, outputs_of(case)
    arrays = case.inputs[sample]
    repeat = max(1, order.plan.warmups) if loops else 1
    inputs = [{"name": name, "shape": list(array.shape)} for name, array in arrays.items()]
    told = json.dumps({"inputs": inputs, "outputs": list(names), "repeat": repeat}).encode()
    files = {f"{_INPUT}/{_as_path(name)}.txt": text_of(array, name) for name, array in arrays.items()}
    argv = [program_path(order, "modulebasic"), model_path(order), _INPUT, "0", str(FORWARD[cell.backend])]
    argv += [str(loops), str(cell.threads), str(_mask(cell))]
    writes = tuple(f"{_OUTPUT}/{repeat - 1}_{at}.txt" for at in range(len(names)))
    return Run(tuple(argv), {f"{_INPUT}/input.json": told, **files}, {}, writes)


def _mask(cell: PlannedCell) -> int:
    return LEVELS[cell.precision] + 4 * LEVELS[cell.memory]


def _as_path(name: str) -> str:
    """Return the name of an input or output where it becomes a file's.

    Raises:
        ConfigError: it would lead elsewhere, or cannot be a file's name.
    """
    parts = name.split("/")
    odd = any(part in ("", ".", "..") or len(part.encode()) > _MOST_NAME_BYTES for part in parts)
    if odd or not name.isprintable():
        raise ConfigError(
            f"the model calls a tensor {name[:100]!r}, which cannot be the name of the file that MNN's tools want",
            remedy="use farm_runner",
            reason=Reason.BAD_PLAN,
        )
    return name
