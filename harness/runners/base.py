"""What a runner is: how a cell becomes runs of programs on the phone, and what these printed becomes events.

A cell is one run, or several: MNN's ``llm_bench`` prints no text, so that its figures are joined by a second run that
does. The first step is the one that is measured; each is supervised by the probe.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from harness.core.reasons import Reason
from harness.payload.bundle import Bundle
from harness.payload.models import ModelFolder
from harness.payload.probe_events import RunLog
from harness.payload.tensor_case import TensorCase
from harness.plan.matrix import PlannedCell
from harness.plan.model import Plan
from harness.runners.events import RunnerLog

MAIN = "main"
INPUTS = "inputs"


@dataclass(frozen=True)
class PromptText:
    """The timed prompt as text, for runners that take no token ids.

    Attributes:
        text: a line that the model's tokenizer makes exactly the plan's number of tokens of.
        token_ids: these tokens.
        stop_tokens: ids that end an answer.
    """

    text: str
    token_ids: tuple[int, ...]
    stop_tokens: tuple[int, ...]


@dataclass(frozen=True)
class Order:
    """One cell on one phone. All folders are paths on the phone; ``prompt`` is there for runners that need it.

    ``files`` are those of the bundle that the phone got, below ``bundle_dir``; ``tensors`` is what a tensor cell feeds.
    """

    bundle: Bundle
    bundle_dir: str
    model: ModelFolder
    model_dir: str
    work_dir: str
    cell: PlannedCell
    plan: Plan
    prompt: PromptText | None = None
    files: frozenset[str] = frozenset()
    tensors: TensorCase | None = None


@dataclass(frozen=True)
class Step:
    """One run of a program.

    Attributes:
        name: of the step, :data:`MAIN` for the one that is measured; also its folder of raw output.
        argv: the command; it starts in the step's folder, :func:`step_dir`.
        files: what is brought to that folder first, path below it → content.
        links: symbolic links made there first, path below it → target on the phone.
        env: variables added to the phone's own.
        speaks: whether it prints while it works, so that long silence means that it hangs.
    """

    name: str
    argv: tuple[str, ...]
    files: Mapping[str, bytes] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    speaks: bool = True


class Runner(Protocol):
    """One way to have generations run.

    Attributes:
        wants_prompt_text: whether an order needs its ``prompt``.
        no_cold_start: why its first use of a model cannot be timed, ``""`` where it can.
    """

    @property
    def wants_prompt_text(self) -> bool:
        """Whether an order needs its ``prompt``."""
        ...

    @property
    def no_cold_start(self) -> str:
        """Why its first use of a model cannot be timed, ``""`` where it can."""
        ...

    def cannot(self, bundle: Bundle, cell: PlannedCell, plan: Plan) -> tuple[Reason, str] | None:
        """Return why this runner cannot measure a cell with a bundle, ``None`` when it can."""
        ...

    def steps(self, order: Order) -> tuple[Step, ...]:
        """Return the runs of a cell; the first is the one that is measured."""
        ...

    def read(self, order: Order, runs: Mapping[str, RunLog], logs: Mapping[str, bytes] | None = None) -> RunnerLog:
        """Return what the runs told, by the names of their steps. A step that was not reached is not among them.

        ``logs`` is what the engine wrote into the phone's log in each, as builds with MNN_USE_LOGCAT do.
        """
        ...


def inputs_dir(work_dir: str) -> str:
    """Return the folder of a tensor cell's inputs; see :meth:`~harness.payload.tensor_case.TensorCase.files`."""
    return f"{work_dir}/{INPUTS}"


def outputs_dir(work_dir: str) -> str:
    """Return the folder in which a tensor cell's outputs lie after its run."""
    return f"{work_dir}/outputs"


def step_dir(work_dir: str, step: Step) -> str:
    """Return the folder of a step: the cell's work folder for the one that is measured, one below it for others."""
    return work_dir if step.name == MAIN else f"{work_dir}/{step.name}"


# Backends in libraries of their own (MNN_SEP_BUILD=ON): they register themselves once loaded, and nothing loads them.
_BACKEND_LIBRARIES = {"opencl": "libMNN_CL.so", "vulkan": "libMNN_Vulkan.so"}


def library_env(order: Order) -> dict[str, str]:
    """Return the variables with which MNN's programs find the libraries beside them, the backend's own among them."""
    if not order.bundle.manifest.variants:
        return {}
    env = {"LD_LIBRARY_PATH": order.bundle_dir}
    library = _BACKEND_LIBRARIES.get(order.cell.backend)
    if library in order.files:
        env["LD_PRELOAD"] = f"{order.bundle_dir}/{library}"
    return env
