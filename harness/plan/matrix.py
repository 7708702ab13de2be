"""The matrix: every combination a plan asks for, in the order in which it is wanted."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from harness.plan.model import Ask, Plan

# On GPU backends MNN's thread number is a mode mask, not a count: 68 = wide tuning (4) + buffer memory (64) for
# OpenCL, 4 = wide tuning for Vulkan, which knows no 64 (MNN documentation, LLM chapter).
GPU_MODE = {"opencl": 68, "vulkan": 4}


@dataclass(frozen=True)
class Block:
    """One turn of a cell that two builds run by turns; see :func:`arms_of`.

    ``pair`` names the cell on its phone with both builds, ``number`` counts its turns from 0, ``of`` is how many.
    """

    pair: str
    arm: Literal["A", "B"]
    number: int
    of: int

    def __str__(self) -> str:
        return f"{self.arm} {self.number + 1}/{self.of}"


def arms_of(rounds: int) -> tuple[Literal["A", "B"], ...]:
    """Return who runs in each turn: A B B A in the first round, then B A A B or A B B A.

    In every round a drift that is linear in time weighs on both builds alike. Whose turn a round begins with follows
    Thue and Morse, so that in two rounds a drift that bends does, too.
    """
    return tuple("AB"[turn.bit_count() % 2] for turn in range(4 * rounds))  # type: ignore[misc]


@dataclass(frozen=True)
class PlannedCell:
    """One cell of a plan, before it is bound to a phone.

    ``leads`` marks the first cell of its configuration (model, backend, precision, memory and engine keys): what does
    not depend on threads and lengths is measured with it, once. A ``tensor`` cell runs an ordinary model: it has no
    tokens, and all its lengths are 0.
    """

    model: str
    backend: str
    threads: int
    precision: str
    memory: str
    prompt_tokens: int
    generate_tokens: int
    context_tokens: int
    engine: dict[str, bool | int | str] = field(default_factory=dict)
    affinity: str = "any"
    leads: bool = False
    block: Block | None = None
    tensor: bool = False

    @property
    def configuration(self) -> tuple[Any, ...]:
        """What the text of an answer and the time to load depend on."""
        return self.model, self.backend, self.precision, self.memory, tuple(sorted(self.engine.items()))

    @property
    def label(self) -> str:
        """Short form for ids and tables: ``cpu-t4-low-p64-g32``, of a tensor cell ``cpu-t4-low``."""
        threads = f"-t{self.threads}" if self.backend == "cpu" else ""
        memory = "" if self.memory == self.precision else f"-m{self.memory}"
        cores = "" if self.affinity == "any" else f"-a{self.affinity}"
        context = f"-c{self.context_tokens}" if self.context_tokens else ""
        engine = "".join(f"-{key}={value}" for key, value in sorted(self.engine.items()))
        lengths = "" if self.tensor else f"-p{self.prompt_tokens}-g{self.generate_tokens}"
        turn = f" [{self.block}]" if self.block is not None else ""
        return f"{self.backend}{threads}{cores}-{self.precision}{memory}{context}{lengths}{engine}{turn}"


def cells_of(plan: Plan) -> list[PlannedCell]:
    """Return the plan's cells, the most wanted first, so that a run that is cut short has gone broad before deep.

    The first axis of ``priority`` varies fastest: with ``["backends", "threads"]`` every backend is measured once
    before any with the next number of threads. Then come the axes that ``priority`` does not name, in the order below:
    every model is measured once before any at the next prompt length.
    GPU backends sweep neither ``threads`` nor ``affinity``: they appear once, with MNN's mode mask.
    """
    tensor = plan.kind == "tensor"
    axes: dict[str, list[Any]] = {
        "models": list(plan.models),
        "backends": list(plan.backends),
        "threads": list(plan.threads),
        "affinity": list(plan.affinity),
        "precision": list(plan.precision),
        "memory": list(plan.memory),
        "prompt_tokens": [0] if tensor else list(plan.prompt_tokens),
        "generate_tokens": [0] if tensor else list(plan.generate_tokens),
        "context_tokens": [0] if tensor else list(plan.context_tokens),
        "engine": list(_engine_settings(plan)),
    }
    # itertools.product varies its last axis fastest.
    order = list(reversed(dict.fromkeys([*plan.priority, *axes])))
    cells: list[PlannedCell] = []
    seen: set[str] = set()
    led: set[tuple[Any, ...]] = set()
    for values in itertools.product(*(axes[name] for name in order)):
        chosen = dict(zip(order, values, strict=True))
        cell = PlannedCell(
            model=chosen["models"],
            backend=chosen["backends"],
            threads=GPU_MODE.get(chosen["backends"], chosen["threads"]),
            precision=chosen["precision"],
            memory=chosen["memory"],
            prompt_tokens=chosen["prompt_tokens"],
            generate_tokens=chosen["generate_tokens"],
            context_tokens=chosen["context_tokens"],
            engine=chosen["engine"],
            affinity="any" if chosen["backends"] in GPU_MODE else chosen["affinity"],
            tensor=tensor,
        )
        if repr(cell) not in seen:
            seen.add(repr(cell))
            cells.append(replace(cell, leads=cell.configuration not in led))
            led.add(cell.configuration)
    return cells


def questions_of(cell: PlannedCell, plan: Plan) -> tuple[Ask, ...]:
    """Return everything that a cell is asked after its timed generations, in that order.

    The golden set judges a configuration, so only the first cell of each is asked it.
    """
    return (*plan.ask, *(plan.golden.ask if cell.leads else ()))


def _engine_settings(plan: Plan) -> Iterator[dict[str, bool | int | str]]:
    swept = plan.engine.axes()
    for values in itertools.product(*swept.values()):
        yield dict(zip(swept, values, strict=True))
