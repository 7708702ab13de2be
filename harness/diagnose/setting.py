"""A setting of the engine that can be varied, and the plan of one cell that it becomes."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from harness.plan.matrix import PlannedCell, cells_of
from harness.plan.model import Plan

# A diagnosis waits for a phone that is lost, but not as long as a benchmark of the night.
_RECOVERY = {"wait_s": 20.0, "tries": 1, "quarantine": False}
# Whether the battery is full enough is a rung of its own.
_PREPARE = {"battery_floor_pct": 0, "charge_timeout_s": 0.0}


@dataclass(frozen=True)
class Setting:
    """What a user can set otherwise. ``use_mmap`` is ``None`` where it is as the model's own configuration has it."""

    backend: str = "cpu"
    threads: int = 1
    precision: str = "low"
    memory: str = "low"
    prompt_tokens: int = 32
    use_mmap: bool | None = None

    def changes(self, other: Setting) -> dict[str, Any]:
        """Return what is otherwise in ``other``, by name."""
        names = [field.name for field in fields(self)]
        # A GPU's number of threads is no number of threads.
        skipped = {"threads"} if "cpu" not in (self.backend, other.backend) else set()
        return {
            name: getattr(other, name)
            for name in names
            if name not in skipped and getattr(other, name) != getattr(self, name)
        }

    def words(self) -> str:
        """Return it for people, e.g. ``cpu, 4 threads, precision low, memory low, prompt of 32 tokens``."""
        threads = f", {self.threads} thread{'s' if self.threads != 1 else ''}" if self.backend == "cpu" else ""
        mmap = "" if self.use_mmap is None else f", use_mmap {'on' if self.use_mmap else 'off'}"
        return (
            f"{self.backend}{threads}, precision {self.precision}, memory {self.memory}, "
            f"prompt of {self.prompt_tokens} tokens{mmap}"
        )


@dataclass(frozen=True)
class Shape:
    """How much is generated and how it is judged.

    Attributes:
        generate_tokens: how many tokens.
        patience_s: after so many seconds a run counts as hanging.
        duration_s: generate without a pause for so long; ``None``: once.
        compared: whether the text is held against the reference.
    """

    generate_tokens: int
    patience_s: float
    duration_s: float | None = None
    compared: bool = True

    def asks_as(self, other: Shape) -> bool:
        """Whether as much is asked for; how long is waited for it does not matter."""
        return replace(self, patience_s=other.patience_s) == other


def plan_values(setting: Setting, shape: Shape, model: str) -> dict[str, Any]:
    """Return a plan of exactly one cell, as its TOML has it; ``model`` is a name or a folder."""
    limit_s = shape.patience_s + (shape.duration_s or 0.0)
    values: dict[str, Any] = {
        "schema": 1,
        "kind": "burst" if shape.duration_s is None else "sustained",
        "models": [model],
        "backends": [setting.backend],
        "threads": [setting.threads],
        "precision": [setting.precision],
        "memory": [setting.memory],
        "prompt_tokens": [setting.prompt_tokens],
        "generate_tokens": [shape.generate_tokens],
        "warmups": 0,
        "repeats": 1,
        "cold_start": False,
        "cell_timeout_s": limit_s,
        "silence_s": limit_s,
    }
    if shape.duration_s is not None:
        values["duration_s"] = shape.duration_s
    if setting.use_mmap is not None:
        values["engine"] = {"use_mmap": setting.use_mmap}
    policy = {} if shape.compared else {"reference": {"policy": "off"}}
    return {**values, **policy, "roofline": {"measure": False}, "recovery": _RECOVERY, "prepare": _PREPARE}


def plan_of(setting: Setting, shape: Shape, model: str) -> tuple[Plan, PlannedCell]:
    """Return the plan and its one cell."""
    plan = Plan.model_validate(plan_values(setting, shape, model))
    [cell] = cells_of(plan)
    return plan, cell
