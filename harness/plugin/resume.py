"""Going on with a run that was begun before: what is kept of it, what is left to do, and what its head says then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import harness
from harness.bench.member import member_of
from harness.bench.phone import ConnectedPhone
from harness.bench.start import check_goes_on, gone_on
from harness.bench.target import target_of_member
from harness.fleet.opening import Fleet
from harness.plan.matrix import cells_of
from harness.plugin.bound import BoundCell
from harness.plugin.options import Again, Request
from harness.plugin.run import Run, bind_cells, cell_ids, context_of
from harness.report.ab import Pair, pairs_of
from harness.report.text import plural
from harness.store.head import FleetMember, LeftOut, RunInfo
from harness.store.resume import is_left
from harness.store.runfolder import RunFolder
from harness.store.schema import CellRecord


@dataclass(frozen=True)
class Begun:
    """A run folder that was begun before. ``records`` are the attempts that count, by cell id.

    ``pairs`` are the cells that two builds ran by turns, with their last turns.
    """

    again: Again
    folder: RunFolder
    head: RunInfo
    records: dict[str, CellRecord]
    pairs: dict[str, Pair]

    @staticmethod
    def open(again: Again) -> Begun:
        """Read what is there.

        Raises:
            ConfigError: it is not a run folder, or its head cannot be read.
        """
        folder = RunFolder.open(again.run_dir)
        pairs = {pair.key: pair for pair in pairs_of(folder.records())}
        return Begun(again, folder, folder.read_info(), {record.cell_id: record for record in folder.latest()}, pairs)

    def check(self, request: Request) -> None:
        """Refuse to go on with another plan, model or bundle, or with other ids for the same cells.

        Raises:
            ConfigError: one sentence with what differs and what to do.
        """
        records = list(self.records.values())
        known = [cell_id for member in self.head.fleet for cell_id in _ids(request, member)]
        check_goes_on(self.head, records, request, known, request.second_build)

    def is_left(self, bound: BoundCell) -> bool:
        """Whether a cell is to be done now; a turn is done again together with all others of its cell.

        What drifts cancels only between turns that follow one another.
        """
        again = self.again
        if bound.pair is None:
            return is_left(self.records.get(bound.cell_id), unfinished=again.unfinished, chosen=again.chosen)
        pair = self.pairs.get(bound.pair)
        if pair is not None and any(again.chosen.picks(record) for record in pair.records):
            return True
        return again.unfinished and (pair is None or not pair.done)

    def not_here(self, request: Request, phones: Sequence[ConnectedPhone]) -> dict[str, int]:
        """Return, by name, how many cells are unfinished of each phone of the run that is not among ``phones``."""
        here = {phone.identity.id for phone in phones}
        missing: dict[str, int] = {}
        for member in self.head.fleet:
            if member.phone.id not in here:
                unfinished = self._unfinished_of(request, member)
                if unfinished:
                    missing[member.phone.name] = missing.get(member.phone.name, 0) + unfinished
        return missing

    def _unfinished_of(self, request: Request, member: FleetMember) -> int:
        if request.ab is not None:
            done = [pair for pair in self.pairs.values() if pair.done and pair.records[0].phone.id == member.phone.id]
            return len(cells_of(request.plan)) - len(done)
        return sum(is_left(self.records.get(cell_id), unfinished=True) for cell_id in _ids(request, member))

    def go_on(self, request: Request, fleet: Fleet, command: Sequence[str]) -> Run:
        """Write into the run's head that it goes on, with phones that are new to it, and return the run.

        The records are read again: another process may have done cells while this one waited for its phones.

        Raises:
            ConfigError: the head cannot be written.
        """
        now = Begun.open(self.again)
        planned = bind_cells(request, fleet.phones)
        cells = tuple(bound for bound in planned if now.is_left(bound))
        missing = now.not_here(request, fleet.phones)
        names = {left.name for left in fleet.left_out}
        absent = [
            LeftOut(name=name, reason=f"not here: {plural(count, 'cell')} unfinished", remedy="connect it and resume")
            for name, count in missing.items()
            if name not in names
        ]
        here, left_out = [member_of(phone) for phone in fleet.phones], (*fleet.left_out, *absent)
        each = len(cells_of(request.plan)) * request.builds
        info = self.folder.update_info(lambda info: gone_on(info, request, command, here, left_out, cells_each=each))
        context = context_of(request, info.run_id, self.folder)
        members = tuple(member.phone.id for member in info.fleet)
        notes = tuple(self._notes(len(cells), len(planned), missing))
        return Run(request, fleet, context, self.folder, planned, cells, members, notes)

    def _notes(self, left: int, planned: int, missing: dict[str, int]) -> list[str]:
        run = f"run {self.head.run_id}"
        if left:
            notes = [f"{run}: {left} of {plural(planned, 'cell')} of these phones were to be done"]
        else:
            nothing = "nothing is left to do" if self.again.unfinished else "no cell was chosen"
            notes = [f"{run}: {nothing} on these phones, no cell was run"]
        if self.head.harness_version != harness.__version__:
            notes.append(f"{run} was begun by mnn-farm {self.head.harness_version}, this is {harness.__version__}")
        return notes + [f"not here: {name}: {plural(count, 'cell')} unfinished" for name, count in missing.items()]


def _ids(request: Request, member: FleetMember) -> list[str]:
    target = target_of_member(member.facts)
    return cell_ids(request, member.phone.id, target, member.facts.get("cpu_clusters") or ())
