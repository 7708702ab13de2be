"""Beginning a run of a lab, or going on with one: who is there, and what the run's head says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

import harness
from harness.bench.start import check_goes_on, gone_on, new_head
from harness.core.errors import ConfigError, HostError
from harness.core.ids import new_run_id
from harness.fleet.states import SAME_PHONE
from harness.lab.matching import Wanted
from harness.lab.order import Announcement
from harness.lab.request import Request, wanted_cells
from harness.store.head import FleetMember, LeftOut, RunInfo
from harness.store.resume import is_left
from harness.store.runfolder import RunFolder


@dataclass(frozen=True)
class Present:
    """The phones that are in the lab now, by id with the host that has them, and who is left out."""

    members: dict[str, FleetMember]
    host_of: dict[str, str]
    left_out: tuple[LeftOut, ...] = ()


def present(hosts: Mapping[str, Announcement]) -> Present:
    """Sort out what the hosts have announced. A phone that two hosts have takes part by the first."""
    members: dict[str, FleetMember] = {}
    host_of: dict[str, str] = {}
    left_out: list[LeftOut] = []
    for address, told in hosts.items():
        if told.version != harness.__version__:
            reason = f"it has mnn-farm {told.version}, this controller {harness.__version__}"
            left_out.append(LeftOut(name=f"host {told.host}", reason=reason, remedy="install the same on both"))
            continue
        try:
            left_out += [LeftOut.model_validate(left) for left in told.left_out]
            of_host = [FleetMember.model_validate(phone) for phone in told.phones]
        except ValidationError as error:
            left_out.append(LeftOut(name=f"host {told.host}", reason=f"it announces no phones ({error.title})"))
            continue
        for member in of_host:
            first = host_of.get(member.phone.id)
            if first is not None:
                reason = f"host {hosts[first].host} has it too, and it takes part there"
                left_out.append(LeftOut(name=f"{member.phone.name} on {told.host}", reason=reason, code=SAME_PHONE))
                continue
            members[member.phone.id], host_of[member.phone.id] = member, address
    return Present(members, host_of, tuple(left_out))


@dataclass(frozen=True)
class Begun:
    """A run that can go: its folder and head, every planned cell, and those that are to be done now."""

    folder: RunFolder
    info: RunInfo
    planned: tuple[Wanted, ...]
    cells: tuple[Wanted, ...]


def begin(request: Request, there: Present, run_dir: Path | None, root: Path, command: Sequence[str]) -> Begun:
    """Make the run folder and write its head.

    Raises:
        ConfigError: the folder holds something else.
        HostError: no phone is there.
    """
    if not there.members:
        raise _no_phone(there)
    run_id = new_run_id()
    folder = RunFolder.create(run_dir or root / "reports" / run_id)
    members = tuple(there.members.values())
    planned = tuple(wanted_cells(request, members))
    info = new_head(
        run_id, request, command, members, there.left_out, cells=len(planned), packages=("adbutils", "distributed")
    )
    folder.write_info(info)
    return Begun(folder, info, planned, planned)


def go_on(request: Request, there: Present, folder: RunFolder, command: Sequence[str]) -> Begun:
    """Go on with a run: write into its head that it goes on, and with which phones that are new to it.

    Raises:
        ConfigError: plan, model or bundle are not those of the run, or its cells have other ids now.
        HostError: no phone is there.
    """
    head, records = folder.read_info(), folder.latest()
    known = [cell_id for member in head.fleet for cell_id in request.cell_ids(member)]
    check_goes_on(head, records, request, known)
    if not there.members:
        raise _no_phone(there)
    here, each = tuple(there.members.values()), len(request.cells())
    info = folder.update_info(lambda info: gone_on(info, request, command, here, there.left_out, cells_each=each))
    planned = tuple(wanted_cells(request, info.fleet))
    by_cell = {record.cell_id: record for record in records}
    cells = tuple(cell for cell in planned if is_left(by_cell.get(cell.cell_id), unfinished=True))
    return Begun(folder, info, planned, cells)


def open_again(run_dir: Path | None) -> RunFolder:
    """Open the run folder that is to be gone on with.

    Raises:
        ConfigError: none is named, or it is none.
    """
    if run_dir is None:
        raise ConfigError("--resume needs --run-dir: say which run", remedy="e.g. --run-dir reports/night")
    return RunFolder.open(run_dir)


def _no_phone(there: Present) -> HostError:
    left = "; ".join(f"{left.name}: {left.reason}" for left in there.left_out[:5])
    return HostError(
        f"no phone of the lab can be used{f' ({left})' if left else ''}", remedy="look at: mnn-farm lab status"
    )
