"""A controller's run of a lab: orders to hosts, records into one folder, and what becomes of a lost host's cells."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.core.errors import ConfigError, FarmError
from harness.lab.client import Lab
from harness.lab.keeper import Keeper
from harness.lab.ledger import ALREADY, Ledger
from harness.lab.link import Link
from harness.lab.matching import Deal, Wanted, deal, make_of
from harness.lab.order import Ended, Item, Order, Work
from harness.lab.parcel import Packed, pack_bundle, pack_model
from harness.lab.request import Request
from harness.lab.start import Begun, Present, present
from harness.store.head import FleetMember

LOOK_EVERY_S = 1.0
# What is left on hosts is collected for at most so long before cells are given out.
COLLECT_S = 60.0
# Longer than a host needs to leave its phones as they were found.
STOP_S = 120.0


@dataclass(frozen=True)
class Told:
    """How a run ended. ``left``: cells without a final record; ``problems``: sentences for people."""

    left: int
    moved: int
    problems: tuple[str, ...]
    stopped: bool


class Control:
    """One run, from giving out its cells to the last record."""

    def __init__(
        self, lab: Lab, request: Request, begun: Begun, there: Present, say: Callable[[str], None], wait_lease_s: float
    ) -> None:
        self.run_id = begun.info.run_id
        self.wait_lease_s = wait_lease_s
        self._lab = lab
        self._request = request
        self._begun = begun
        self._say = say
        self._members: dict[str, FleetMember] = {member.phone.id: member for member in begun.info.fleet}
        self._members.update(there.members)
        self._makes = {phone_id: make_of(member) for phone_id, member in self._members.items()}
        self._planned = {cell.cell_id: cell for cell in begun.planned}
        self._ledger = Ledger(begun.folder.records())
        self._keeper = Keeper(begun.folder, self.run_id, self._planned, self._ledger)
        self._changed = threading.Condition()
        self._links: dict[str, Link] = {}
        self._open: dict[str, tuple[Order, Link]] = {}
        self._waiting: list[Wanted] = []
        self._seen: set[str] = set()
        self._present = there
        self._parcels: dict[str, Packed] = {}
        self._problems: list[str] = []
        self._trouble: FarmError | None = None
        self._moved = 0

    def run(self) -> Told:
        """Do all cells that can be done, and return how it went.

        Ctrl-C ends it in order: phones are left as they were found, and what is finished is kept.

        Raises:
            FarmError: nothing can be recorded any more, or the scheduler is gone.
        """
        stopped = False
        try:
            self._look_around()
            self._collect()
            self._give_out(list(self._begun.cells))
            self._follow()
        except KeyboardInterrupt:
            stopped = True
            self._say("stopping: the phones are left as they were found")
            self._stop()
        except FarmError:
            self._stop()
            raise
        finally:
            for link in self._links.values():
                link.end()
        if self._trouble is not None:
            raise self._trouble
        left = sum(not self._ledger.is_final(cell_id) for cell_id in self._planned)
        return Told(left, self._moved, tuple(dict.fromkeys(self._problems)), stopped)

    # What links call

    def packed(self, order: Order) -> list[Packed]:
        """Return the payloads of an order."""
        return [self._parcels[parcel] for parcel in dict.fromkeys(order.parcels.values())]

    def take(self, host: Link, item: Item) -> None:
        """Keep a finished attempt, or say why it is dropped."""

        def read(path: str, offset: int) -> bytes:
            piece = host.ask("read", item.order_id, item.number, path, offset)
            return piece if isinstance(piece, bytes) else b""

        try:
            record, why = self._keeper.take(item, read)
        except ConfigError as error:  # the host's fault, which must not end the others' run
            record, why = None, str(error)
            self._problems.append(f"{host.host}: a record could not be taken: {error}")
        if record is None and why == ALREADY:
            return
        if record is None:
            self._say(f"{host.host}: a record of cell {item.cell_id[:6]} is dropped: {why}")
            return
        config = record.config
        lengths = "" if config.kind == "tensor" else f" p{config.prompt_tokens} g{config.generate_tokens}"
        what = f"{record.model.name} {config.backend} t{config.threads}{lengths}"
        verdict = record.verdict.value if record.reason is None else f"{record.verdict.value}, {record.reason}"
        planned = self._members[record.planned_phone].phone.name if record.planned_phone is not None else None
        self._moved += planned is not None
        self._say(f"{record.phone.name}: {what}: {verdict}{f' (planned for {planned})' if planned else ''}")

    def closed(self, order_id: str, ended: Ended | None) -> None:
        """Note that an order is over."""
        with self._changed:
            order, link = self._open.pop(order_id, (None, None))
            with self._keeper.lock:
                self._ledger.take_back(order_id)
            self._changed.notify_all()
        why = (ended.refused or ended.stopped) if ended is not None else ""
        if order is not None and link is not None and why:
            self._problems.append(f"{order.phone_name} on {link.host}: {why}")

    def failed(self, error: FarmError) -> None:
        """End the run: a record cannot be kept."""
        with self._changed:
            self._trouble = self._trouble or error
            self._changed.notify_all()

    # Hosts that come and go

    def _look_around(self) -> None:
        """Link hosts that came, and give up those that went."""
        if set(self._lab.workers()) == self._seen:
            return
        hosts = self._lab.hosts()
        # Without those that have not announced themselves yet, so that they are asked for again.
        self._seen = set(hosts)
        self._present = present(hosts)
        for address, link in list(self._links.items()):
            if address not in hosts:
                self._lose(link)
        for address in dict.fromkeys(self._present.host_of.values()):
            if address not in self._links:
                self._links[address] = Link(self._lab, address, hosts[address].host, self, self._say)
                self._links[address].begin()

    def _lose(self, link: Link) -> None:
        """Give a host up: whatever it still sends, its cells are nobody's now."""
        link.end()
        del self._links[link.address]
        with self._changed:
            mine = [order_id for order_id, (_, its) in self._open.items() if its is link]
            with self._keeper.lock:
                lost = [cell_id for order_id in mine for cell_id in self._ledger.take_back(order_id)]
            for order_id in mine:
                del self._open[order_id]
        self._problems.append(f"host {link.host} was lost with {len(lost)} cells to do")
        self._say(self._problems[-1])
        self._waiting += [self._planned[cell_id] for cell_id in lost]

    def _collect(self) -> None:
        """Wait until all hosts have given what they had kept of this run."""
        end = time.monotonic() + COLLECT_S
        for link in list(self._links.values()):
            while not link.ready.wait(0.05) and not link.lost.is_set() and time.monotonic() < end:
                if self._trouble is not None:
                    return

    # Giving out

    def _give_out(self, cells: Sequence[Wanted]) -> None:
        """Give cells to phones that are here; those that nobody can do wait for a host that comes."""
        host_of = self._present.host_of
        here = [phone_id for phone_id, address in host_of.items() if self._is_ready(address)]
        busy = dict.fromkeys(here, 0)
        for order, _ in self._now_open():
            busy[order.phone_id] = busy.get(order.phone_id, 0) + len(order.work)
        with self._keeper.lock:
            left = [cell for cell in cells if not self._ledger.is_final(cell.cell_id)]
        deals, stay = deal(left, self._makes, here, self._request.plan.lab.by, busy=busy)
        self._waiting = list(stay)
        for dealt in deals:
            self._order(dealt, self._links[host_of[dealt.phone_id]])

    def _is_ready(self, address: str) -> bool:
        link = self._links.get(address)
        return link is not None and link.ready.is_set()

    def _order(self, dealt: Deal, link: Link) -> None:
        request, member = self._request, self._members[dealt.phone_id]
        bundle = request.bundle_for(member)
        cells = request.cells()
        work = [Work(cell.cell_id, cell.runs_on[dealt.phone_id], cells[cell.number]) for cell in dealt.cells]
        models = {one.cell.model: request.models[one.cell.model] for one in work}
        parcels = {"bundle": self._parcel(pack_bundle(bundle))}
        parcels.update({f"model {name}": self._parcel(pack_model(model)) for name, model in models.items()})
        order = Order(
            id=f"{self.run_id}-{secrets.token_hex(6)}",
            run_id=self.run_id,
            plan_name=request.plan_name,
            plan=request.plan,
            phone_id=dealt.phone_id,
            phone_name=member.phone.name,
            planned_phone=dealt.planned_phone,
            work=tuple(work),
            bundle=bundle,
            bundle_hash=bundle.hash,
            models=models,
            parcels=parcels,
            wait_lease_s=self.wait_lease_s,
        )
        with self._keeper.lock:
            self._ledger.give(order.id, [cell.cell_id for cell in dealt.cells])
        with self._changed:
            self._open[order.id] = (order, link)
        link.give(order)

    def _now_open(self) -> list[tuple[Order, Link]]:
        with self._changed:
            return list(self._open.values())

    def _parcel(self, packed: Packed) -> str:
        name = packed.parcel.hash
        self._parcels.setdefault(name, packed)
        return name

    # Following

    def _follow(self) -> None:
        """Wait for the end of all orders, and look after the hosts meanwhile."""
        while self._trouble is None:
            collecting = any(not link.ready.is_set() for link in self._links.values())
            with self._changed:
                if not self._open and not (collecting and self._waiting):
                    return
                self._changed.wait(LOOK_EVERY_S)
            self._look_around()
            if self._waiting:
                self._give_out(self._waiting)

    def _stop(self) -> None:
        """End all orders now, and take what is finished. A second Ctrl-C does not wait for that."""
        for link in self._links.values():
            try:
                link.ask("stop_run", self.run_id)
                for order_id in [order.id for order, its in self._now_open() if its is link]:
                    if link.ask("refuse", order_id):
                        self.closed(order_id, Ended(stopped="it was stopped before it began"))
            except FarmError as error:
                self._problems.append(f"host {link.host}: {error}")
        end = time.monotonic() + STOP_S
        with self._changed:
            while (
                self._open and time.monotonic() < end and any(not its.lost.is_set() for _, its in self._open.values())
            ):
                self._changed.wait(LOOK_EVERY_S)
