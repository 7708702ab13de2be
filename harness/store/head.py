"""The head of a run, ``run.json``: what it was made of, who took part, who did not and why. Schema 1."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from harness.store.frozen import Frozen
from harness.store.schema import PhoneInfo


class LeftOut(Frozen):
    """A phone that was there or asked for and took no part.

    ``code`` is for programs, a code of :class:`~harness.core.reasons.Reason` where one fits; ``reason`` is a clause.
    """

    name: str
    reason: str
    remedy: str = ""
    code: str = ""


class FleetMember(Frozen):
    """A phone that took part, with the facts its records refer to; ``tier_because`` is missing in older heads.

    ``shares_cpu``: it is no phone of its own but runs on a computer that does other work too, so its speed is that
    computer's.
    """

    phone: PhoneInfo
    provider: str
    facts: dict[str, Any]
    nulls: dict[str, str] = Field(default_factory=dict)
    shares_cpu: bool = False
    tier_because: str = ""


class Source(Frozen):
    """A model or a bundle as it was given to a run: its own name, its content hash, and where it lay then."""

    name: str
    hash: str
    folder: str


class Resumption(Frozen):
    """A later start in the same run folder. ``phones`` are the names of those that took part."""

    started: str
    command: tuple[str, ...]
    harness_version: str
    phones: tuple[str, ...]
    left_out: tuple[LeftOut, ...] = ()


class SecondBuild(Frozen):
    """The build that a run with ``--ab`` holds against ``bundle``, and in how many rounds of four turns."""

    bundle: Source
    rounds: int


class RunInfo(Frozen):
    """The head of a run folder, ``run.json``.

    ``models`` go by the plan's names for them. ``models`` and ``bundle`` are missing in heads of older versions.
    ``ab`` is there in a run of two builds. ``fleet`` holds every phone that ever took part, ``left_out`` is that of
    the first start. ``against`` is what ``--against`` said at the first start, ``None`` if nothing.
    """

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    run_id: str
    started: str
    command: tuple[str, ...]
    harness_version: str
    versions: dict[str, str]
    host: dict[str, str]
    plan_name: str
    plan: dict[str, Any]
    fleet: tuple[FleetMember, ...]
    left_out: tuple[LeftOut, ...] = ()
    cells: int = 0
    models: dict[str, Source] = Field(default_factory=dict)
    bundle: Source | None = None
    resumptions: tuple[Resumption, ...] = ()
    against: str | None = None
    ab: SecondBuild | None = None

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    @property
    def still_left_out(self) -> tuple[LeftOut, ...]:
        """Who was left out at the latest start: a phone that joined later is not missing any more."""
        return self.resumptions[-1].left_out if self.resumptions else self.left_out
