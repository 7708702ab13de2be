"""A lab host at work: its phones, the orders that run on them, and what controllers ask of it. Knows no Dask."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import harness
from harness.bench.context import RunContext
from harness.bench.leave import leave_as_found
from harness.bench.member import member_of
from harness.bench.phone import ConnectedPhone, Terms, claim
from harness.bench.session import PhoneSession
from harness.core.errors import ConfigError, FarmError
from harness.core.log import phone_logger
from harness.core.reasons import Reason
from harness.fleet.meeting import meet_phone
from harness.fleet.opening import Fleet
from harness.fleet.states import Why
from harness.lab.intake import Answer, Intake
from harness.lab.order import Announcement, Ended, Item, News, Order
from harness.lab.parcel import CHUNK_BYTES, Parcel
from harness.lab.spool import Spool
from harness.payload.push_slots import DEFAULT_SLOTS
from harness.plan.tiers import load_tier_rules

# A controller that asks for no news for so long is gone: the cell in flight is finished, no other is begun.
SILENCE_S = 90.0


class Stopped(BaseException):
    """Leaves a cell in its middle, as Ctrl-C does: through everything that turns errors into records."""


@dataclass
class Running:
    """An order on this host. ``heard`` is when its controller last asked, by the monotonic clock."""

    order: Order
    heard: float
    doing: str = "waiting for its turn"
    done: int = 0
    begun: bool = False
    over: bool = False
    stop: threading.Event = field(default_factory=threading.Event)


class Host:
    """All that a host does. Every method may be called by any thread."""

    def __init__(
        self,
        name: str,
        fleet: Fleet,
        store: Path,
        *,
        max_parallel: int | None = None,
        push_slots: int = DEFAULT_SLOTS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self._max_parallel = max_parallel
        self._push_slots = push_slots
        self._fleet = fleet
        self._phones = {phone.identity.id: phone for phone in fleet.phones}
        self._spools = store / "spool"
        parcels = store / "payloads"
        for folder in (self._spools, parcels):
            folder.mkdir(parents=True, exist_ok=True)
        Spool.remove_old(self._spools)
        self._intake = Intake(parcels)
        self._clock = clock
        self._lock = threading.Lock()
        self._orders: dict[str, Running] = {}
        self._kept: dict[str, Spool] = {}
        self._refused: set[str] = set()
        self._taken: set[str] = set()
        self._stopping = False

    @property
    def phone_ids(self) -> list[str]:
        """Ids of the phones that can be used here."""
        return list(self._phones)

    @property
    def places(self) -> int:
        """On how many phones is measured at a time."""
        return max(1, min(len(self._phones), self._max_parallel or len(self._phones)))

    def announcement(self) -> Announcement:
        """Return what the scheduler is told."""
        phones = tuple(member_of(phone).model_dump(mode="json") for phone in self._phones.values())
        left_out = tuple(left.model_dump(mode="json") for left in self._fleet.left_out)
        return Announcement(self.name, harness.__version__, phones, left_out)

    # What controllers ask

    def offer(self, parcel: Parcel, sender: str) -> Answer:
        """See :meth:`Intake.offer`."""
        return self._intake.offer(parcel, sender)

    def put(self, parcel_hash: str, sender: str, path: str, offset: int, data: bytes) -> None:
        """See :meth:`Intake.put`."""
        self._intake.put(parcel_hash, sender, path, offset, data)

    def finish(self, parcel_hash: str, sender: str) -> None:
        """See :meth:`Intake.finish`."""
        self._intake.finish(parcel_hash, sender)

    def orders(self, run_id: str) -> list[str]:
        """Return the orders of a run that are not closed here: of a dead controller, or of a dead process of this host.

        Those of a dead controller may run on still.
        """
        with self._lock:
            self._kept.update({spool.path.name: spool for spool in Spool.adopt(self._spools, run_id)})
            return [order_id for order_id, spool in self._kept.items() if spool.run_id == run_id]

    def news(self, after: Mapping[str, int]) -> News:
        """Return what is new; by order, how many attempts the controller has, which are dropped here."""
        items: list[Item] = []
        doing: dict[str, str] = {}
        over: set[str] = set()
        for order_id, number in after.items():
            running = self._orders.get(order_id)
            if running is not None:
                running.heard = self._clock()
                doing[order_id] = running.doing
            # Looked at before the spool: what was written before it was over is there then.
            is_over = order_id in self._refused or order_id in self._taken or (running is not None and running.over)
            spool = self._kept.get(order_id)
            item = spool.item(number) if spool is not None else None
            if item is not None:
                items.append(item)
            elif is_over or (running is None and spool is not None):
                over.add(order_id)
        return News(tuple(items), doing, frozenset(over))

    def read(self, order_id: str, number: int, path: str, offset: int) -> bytes:
        """Return the next piece of a file of raw output.

        Raises:
            ConfigError: there is none of that name.
        """
        spool = self._kept.get(order_id)
        if spool is None:
            raise ConfigError(f"nothing is kept of order {order_id}")
        return spool.read(number, path, offset, CHUNK_BYTES)

    def forget(self, order_id: str) -> None:
        """Forget an order that is over: the controller has everything."""
        with self._lock:
            running = self._orders.get(order_id)
            if running is not None and not running.over:
                return
            self._orders.pop(order_id, None)
            self._taken.add(order_id)
            spool = self._kept.pop(order_id, None)
        if spool is not None:
            spool.remove()

    def refuse(self, order_id: str) -> bool:
        """Do not begin an order that waits; return whether it had not begun, so that this is sure now."""
        with self._lock:
            running = self._orders.get(order_id)
            if running is not None and running.begun:
                return False
            self._refused.add(order_id)
            return True

    def stop_run(self, run_id: str) -> None:
        """End all orders of a run now, in the middle of a cell too; phones are left as they were found."""
        for running in list(self._orders.values()):
            if running.order.run_id == run_id:
                running.stop.set()

    def status(self) -> list[dict[str, Any]]:
        """Return, phone by phone, what it does and how many cells are left to it."""
        rows = []
        for phone_id, phone in self._phones.items():
            mine = [one for one in list(self._orders.values()) if one.order.phone_id == phone_id and not one.over]
            info = phone.info
            rows.append(
                {
                    "id": phone_id,
                    "name": phone.name,
                    "model": info.model,
                    "soc": info.soc,
                    "tier": info.tier,
                    "runs": sorted({one.order.run_id for one in mine}),
                    "doing": mine[0].doing if mine else "nothing",
                    "cells_left": sum(len(one.order.work) - one.done for one in mine),
                }
            )
        return rows

    # Measuring

    def stop(self) -> None:
        """End everything now and begin nothing any more; returns at once."""
        self._stopping = True
        for running in list(self._orders.values()):
            running.stop.set()

    @property
    def busy(self) -> bool:
        """Whether a phone is still to be left as it was found."""
        return any(running.begun and not running.over for running in list(self._orders.values()))

    def measure(self, order: Order) -> Ended:
        """Do an order's cells on its phone, one after the other; each ends in a record in the order's spool."""
        running = Running(order, self._clock())
        with self._lock:
            if self._stopping or order.id in self._refused:
                return Ended(refused="the host is stopping" if self._stopping else "it was called off")
            if order.id in self._orders or order.id in self._taken:
                # Dask does a task again whose worker it thought dead.
                return Ended(refused="it was done before")
            running.begun = True
            self._orders[order.id] = running
        try:
            return self._measure(running)
        except Stopped:
            return Ended(stopped="it was stopped")
        except FarmError as error:
            return Ended(refused=str(error), code=error.reason.code)
        finally:
            running.doing = "nothing"
            running.over = True

    def _measure(self, running: Running) -> Ended:
        order = running.order
        log = phone_logger(__name__, order.phone_name)
        settled = False

        def say(what: str) -> None:
            running.doing = " ".join(what.split())
            log.info("%s", running.doing)
            if running.stop.is_set() and not settled:
                raise Stopped

        def watch(_: object) -> None:
            if running.stop.is_set():
                raise Stopped

        context = self._context(order)
        phone = self._take(order, say)
        session = PhoneSession(phone, context, say, watch)
        try:
            for work in order.work:
                watch(None)
                if self._clock() - running.heard > SILENCE_S:
                    return Ended(stopped="its controller is gone")
                session.run_cell(work.cell)
                running.done += 1
        finally:
            settled = True
            session.close()
        return Ended()

    def _context(self, order: Order) -> RunContext:
        """Return the context of an order here, with the payloads that were sent.

        Raises:
            ConfigError: one is not here, or the binaries would not be the same here.
        """
        places = {parcel: self._intake.place_of(parcel) for parcel in order.parcels.values()}
        missing = [parcel for parcel, place in places.items() if not place.is_dir()]
        if missing:
            raise ConfigError(f"host {self.name} lacks a payload ({missing[0][:12]})", remedy="run again with --resume")
        spool = self._kept[order.id] = Spool.create(self._spools, order)
        context = replace(order.context(spool.path, places), push_slots=self._push_slots)
        if context.bundle.hash != order.bundle_hash:
            raise ConfigError(
                f"host {self.name} would build other binaries of bundle {order.bundle.manifest.name}",
                remedy="install the same mnn-farm and the same ziglang on all computers of the lab",
                reason=Reason.BUNDLE_MISMATCH,
            )
        return context

    def _take(self, order: Order, say: Callable[[str], None]) -> ConnectedPhone:
        """Look at the phone again and take it.

        Raises:
            FarmError: it cannot be used, is another one now, or somebody has it (reason ``busy``).
        """
        known = self._phones.get(order.phone_id)
        if known is None:
            raise ConfigError(f"host {self.name} has no phone {order.phone_id}", reason=Reason.PHONE_GONE)
        prepare = order.plan.prepare
        purpose = f"plan {order.plan_name}, run {order.run_id}"
        terms = Terms(purpose, order.wait_lease_s, order.plan.recovery, prepare.battery_floor_pct)
        met = meet_phone(known.endpoint, load_tier_rules(), say, terms)
        if isinstance(met, Why):
            reason = next((one for one in Reason if one.code == met.code), Reason.ADB_ERROR)
            raise FarmError(f"{known.name}: {met.reason}", remedy=met.remedy, reason=reason)
        if met.identity.id != order.phone_id:
            raise FarmError(f"{known.name}: another phone is there now", reason=Reason.PHONE_GONE)
        taken = claim(met, say, terms)
        self._phones[order.phone_id] = taken
        return taken

    def close(self) -> None:
        """Leave all phones as they were found; those of orders are already."""
        for phone in self._phones.values():
            leave_as_found(phone, lambda _: None)
        self._fleet.close()
