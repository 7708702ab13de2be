"""A run's head when the run begins, and when it is gone on with: the same for pytest's runs and for those of a lab."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import Any, Protocol

import harness
from harness.core.ids import iso, utc_now
from harness.plan.load import make_plan
from harness.store.head import FleetMember, LeftOut, Resumption, RunInfo, SecondBuild, Source
from harness.store.resume import check_build, check_known, check_same
from harness.store.schema import CellRecord

# How messages name the plan that a run was begun with.
PLAN_OF_RUN = "the plan of this run (run.json)"


class Asked(Protocol):
    """What of a request stands in a run's head."""

    @property
    def plan_name(self) -> str:
        """The plan's name or file, as it was given."""
        ...

    @property
    def plan_values(self) -> dict[str, Any]:
        """The plan as the head holds it."""
        ...

    @property
    def model_sources(self) -> dict[str, Source]:
        """The models, by the plan's names."""
        ...

    @property
    def bundle_source(self) -> Source:
        """The bundle."""
        ...


def new_head(
    run_id: str,
    asked: Asked,
    command: Sequence[str],
    fleet: Sequence[FleetMember],
    left_out: Sequence[LeftOut],
    *,
    cells: int,
    packages: Sequence[str],
    against: str | None = None,
    ab: SecondBuild | None = None,
) -> RunInfo:
    """Return the head of a run that begins now, on this computer.

    ``cells`` is the number of all cells on all phones; of ``packages`` the versions are kept, beside Python's.
    """
    return RunInfo(
        run_id=run_id,
        started=iso(utc_now()),
        command=tuple(command),
        harness_version=harness.__version__,
        versions={"python": platform.python_version(), **{name: version(name) for name in packages}},
        host={"system": platform.platform(), "machine": platform.machine(), "cpus": str(os.cpu_count())},
        plan_name=asked.plan_name,
        plan=asked.plan_values,
        fleet=tuple(fleet),
        left_out=tuple(left_out),
        cells=cells,
        models=asked.model_sources,
        bundle=asked.bundle_source,
        against=against,
        ab=ab,
    )


def check_goes_on(
    head: RunInfo,
    records: Sequence[CellRecord],
    asked: Asked,
    known_ids: Iterable[str],
    second_build: SecondBuild | None = None,
) -> None:
    """Refuse to go on with another plan, model or bundle, or with other ids for the same cells.

    ``known_ids`` are those that this version finds for all phones of the run.

    Raises:
        ConfigError: one sentence with what differs and what to do.
    """
    # With defaults for what plans could not say when the run was begun.
    plan = make_plan(head.plan, PLAN_OF_RUN).model_dump(mode="json", by_alias=True)
    then = head.model_copy(update={"plan": plan})
    check_same(then, records, asked.plan_values, asked.model_sources, asked.bundle_source)
    if head.ab is not None and second_build is not None:
        check_build(head.ab.bundle, second_build.bundle)
    check_known(head, records, known_ids, harness.__version__)


def gone_on(
    info: RunInfo,
    asked: Asked,
    command: Sequence[str],
    here: Sequence[FleetMember],
    left_out: Sequence[LeftOut],
    *,
    cells_each: int,
) -> RunInfo:
    """Return the head of a run that goes on now with the phones ``here``, some of which may be new to it.

    ``cells_each`` is the number of cells of each phone.
    """
    known = {member.phone.id for member in info.fleet}
    fleet = (*info.fleet, *(member for member in here if member.phone.id not in known))
    resumption = Resumption(
        started=iso(utc_now()),
        command=tuple(command),
        harness_version=harness.__version__,
        phones=tuple(member.phone.name for member in here),
        left_out=tuple(left_out),
    )
    return info.model_copy(
        update={
            "fleet": fleet,
            "cells": len(fleet) * cells_each,
            # Heads of older versions lack these.
            "models": info.models or asked.model_sources,
            "bundle": info.bundle or asked.bundle_source,
            "resumptions": (*info.resumptions, resumption),
        }
    )
