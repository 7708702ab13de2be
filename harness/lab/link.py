"""A controller's link to one host: a thread that brings payloads, gives orders and takes what comes back."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from harness.core.errors import FarmError, HarnessError
from harness.lab.client import HostLostError, Lab
from harness.lab.order import Ended, Item, News, Order
from harness.lab.parcel import Packed
from harness.lab.sending import bring

if TYPE_CHECKING:
    from distributed import Future

# So often a host is asked for news, and so long a task of Dask's may take to begin where nothing is in its way.
ASK_EVERY_S = 0.25
BEGIN_S = 15.0


class Run(Protocol):
    """What a link needs of its run. Each method is called by the link's thread."""

    run_id: str
    wait_lease_s: float

    def packed(self, order: Order) -> list[Packed]:
        """Return the payloads of an order."""
        ...

    def take(self, host: Link, item: Item) -> None:
        """Take a finished attempt."""
        ...

    def closed(self, order_id: str, ended: Ended | None) -> None:
        """Note that an order is over and everything of it is taken; ``None``: nobody knows how it ended."""
        ...

    def failed(self, error: FarmError) -> None:
        """End the run: nothing can be recorded any more."""
        ...


@dataclass
class _Open:
    """An order that is not closed. ``after``: how many attempts were taken. Without a ``future`` it was found there."""

    order: Order | None
    future: Future[Any] | None
    after: int = 0
    given: float = field(default_factory=time.monotonic)


class Link:
    """The link to one host. :attr:`lost` is set by whoever finds that the scheduler has given the host up."""

    def __init__(self, lab: Lab, address: str, host: str, run: Run, say: Callable[[str], None]) -> None:
        self.address = address
        self.host = host
        self.lost = threading.Event()
        self.ready = threading.Event()
        self._lab = lab
        self._run = run
        self._say = say
        self._inbox: queue.SimpleQueue[Order] = queue.SimpleQueue()
        self._orders: dict[str, _Open] = {}
        self._thread = threading.Thread(target=self._work, name=f"link to {host}", daemon=True)

    def begin(self) -> None:
        """Collect what the host has kept of this run, then wait for orders."""
        self._thread.start()

    def give(self, order: Order) -> None:
        """Give an order."""
        self._inbox.put(order)

    def ask(self, method: str, *args: object) -> object:
        """Ask the host for something.

        Raises:
            HostLostError: it does not answer.
            FarmError: what it answered.
        """
        return self._lab.ask(self.address, method, *args)

    def end(self) -> None:
        """Ask for nothing any more."""
        self.lost.set()

    def _work(self) -> None:
        while not self.lost.is_set():
            try:
                self._step()
            except HostLostError as error:
                if not self.lost.wait(1.0):
                    self._say(f"{self.host}: {error}")
            except FarmError as error:
                self._run.failed(error)
                return
            except Exception as error:  # noqa: BLE001  a bug of ours must not leave the run waiting for this thread
                self._run.failed(HarnessError(f"link to {self.host}: {type(error).__name__}: {error}"))
                return
            self.lost.wait(ASK_EVERY_S)

    def _step(self) -> None:
        if not self.ready.is_set():
            for order_id in self._lab.ask(self.address, "orders", self._run.run_id):
                self._orders.setdefault(order_id, _Open(None, None))
            self._ask_for_news()
            if not any(one.future is None for one in self._orders.values()):
                self.ready.set()
            return
        while not self._inbox.empty():
            self._give(self._inbox.get())
        if self._orders:
            self._ask_for_news()

    def _give(self, order: Order) -> None:
        try:
            for packed in self._run.packed(order):
                bring(
                    packed, f"{self._run.run_id}-{id(self)}", self.ask, lambda what: self._say(f"{self.host}: {what}")
                )
        except HostLostError:
            self._inbox.put(order)
            raise
        except FarmError as error:
            self._run.closed(order.id, Ended(refused=str(error), code=error.reason.code))
            return
        self._orders[order.id] = _Open(order, self._lab.submit(order, self.address))

    def _ask_for_news(self) -> None:
        while not self.lost.is_set():
            news: News = self._lab.ask(self.address, "news", {key: one.after for key, one in self._orders.items()})
            for item in news.items:
                self._run.take(self, item)
                self._orders[item.order_id].after += 1
            for order_id in news.over:
                self._close(order_id)
            if not news.items:
                break
        for order_id, one in list(self._orders.items()):
            if one.future is not None and order_id not in news.doing:
                self._look_after(order_id, one)

    def _look_after(self, order_id: str, one: _Open) -> None:
        """See to an order that the host does not know: it waits for its turn, or its task broke before it began."""
        assert one.future is not None  # noqa: S101
        if one.future.status in ("error", "cancelled", "lost"):
            self._close(order_id)
            return
        patient = time.monotonic() - one.given < self._run.wait_lease_s + BEGIN_S or self._waits_for_us(one)
        if not patient and self._lab.ask(self.address, "refuse", order_id):
            one.future.cancel()
            del self._orders[order_id]
            self._run.closed(order_id, Ended(refused="another run of the lab has this phone", code="busy"))

    def _waits_for_us(self, waiting: _Open) -> bool:
        """Whether another order of this very run has the phone."""
        phones = [one.order.phone_id for one in self._orders.values() if one is not waiting and one.order is not None]
        return waiting.order is not None and waiting.order.phone_id in phones

    def _close(self, order_id: str) -> None:
        one = self._orders[order_id]
        ended = _how_it_ended(one.future) if one.future is not None else None
        self._lab.ask(self.address, "forget", order_id)
        del self._orders[order_id]
        self._run.closed(order_id, ended)


def _how_it_ended(future: Future[Any]) -> Ended:
    try:
        ended = future.result(timeout=30)
    except Exception as error:  # noqa: BLE001  whatever the task died of, its records are there
        return Ended(stopped=f"its task broke: {type(error).__name__}: {error}")
    return ended if isinstance(ended, Ended) else Ended(stopped="its task told nothing")
