"""Which phone does which cells: its own, and where the plan allows it those of a like one that is away. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.store.head import FleetMember

By = Literal["phone", "model"]


@dataclass(frozen=True)
class Make:
    """What makes two phones equivalent: the model, and the chip, because some models are sold with two."""

    model: str
    soc: str


def make_of(member: FleetMember) -> Make | None:
    """Return what a phone is; ``None`` where it does not say, which is like no other."""
    model, soc = member.phone.model, member.phone.soc
    return Make(model, soc) if model and soc else None


@dataclass(frozen=True)
class Wanted:
    """A cell that is to be done. ``runs_on`` holds, by phone, the id that the very same work has there.

    Only phones are in it that get the same binaries and are asked for the same: cores, for example, differ.
    """

    cell_id: str
    phone_id: str
    number: int
    runs_on: Mapping[str, str]


@dataclass(frozen=True)
class Deal:
    """Cells for one phone, in the plan's order; all of its own, or all of ``planned_phone``."""

    phone_id: str
    planned_phone: str | None
    cells: tuple[Wanted, ...]


def deal(
    wanted: Sequence[Wanted],
    makes: Mapping[str, Make | None],
    here: Sequence[str],
    by: By,
    *,
    busy: Mapping[str, int] | None = None,
) -> tuple[tuple[Deal, ...], tuple[Wanted, ...]]:
    """Deal cells to phones.

    Args:
        wanted: the cells, the most wanted first.
        makes: by phone, of phones here and of those that are away.
        here: ids of the phones that can be used.
        by: whether cells of a phone that is away may go to one of the same make.
        busy: how many cells phones have to do already: the least busy one gets the next cell.

    Returns:
        What each phone gets, and the cells that nobody can do.
    """
    load = {phone_id: (busy or {}).get(phone_id, 0) for phone_id in here}
    for cell in wanted:
        if cell.phone_id in load:
            load[cell.phone_id] += 1
    dealt: dict[tuple[str, str | None], list[Wanted]] = {}
    stay: list[Wanted] = []
    for cell in wanted:
        if cell.phone_id in load:
            dealt.setdefault((cell.phone_id, None), []).append(cell)
            continue
        fit = _equivalent(cell, makes, here) if by == "model" else []
        if not fit:
            stay.append(cell)
            continue
        least = min(fit, key=lambda phone_id: load[phone_id])
        load[least] += 1
        dealt.setdefault((least, cell.phone_id), []).append(cell)
    return tuple(Deal(phone_id, planned, tuple(cells)) for (phone_id, planned), cells in dealt.items()), tuple(stay)


def _equivalent(cell: Wanted, makes: Mapping[str, Make | None], here: Iterable[str]) -> list[str]:
    make = makes.get(cell.phone_id)
    return [one for one in here if make is not None and makes.get(one) == make and one in cell.runs_on]
