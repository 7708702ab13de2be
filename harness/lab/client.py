"""A controller's side of Dask: who is in the lab, what is asked of hosts, orders as tasks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.core.errors import FarmError, HostError
from harness.lab.address import Address
from harness.lab.engine import (
    ANNOUNCED,
    TROUBLE,
    ask,
    ask_to_stop,
    dask_here,
    measure,
    nobody_answers,
    resource_of,
)
from harness.lab.order import Announcement, Order

if TYPE_CHECKING:
    from distributed import Client, Future

CONNECT_S = 15.0
STOP_S = 120.0


class HostLostError(HostError):
    """A host did not answer: it died, or the way to it broke."""


@dataclass(frozen=True)
class Lab:
    """A connection to a lab's scheduler."""

    address: Address
    client: Client

    @staticmethod
    @contextmanager
    def connect(address: Address) -> Iterator[Lab]:
        """Connect.

        Raises:
            ConfigError: Dask is not installed.
            HostError: no scheduler answers.
        """
        distributed = dask_here()
        try:
            client = distributed.Client(
                str(address), security=address.security(), timeout=CONNECT_S, set_as_default=False, name="mnn-farm"
            )
        except TROUBLE as error:
            raise nobody_answers(address, error) from error
        try:
            yield Lab(address, client)
        finally:
            client.close(timeout=5)

    def workers(self) -> list[str]:
        """Return the addresses of all workers that are there now.

        Raises:
            HostError: the scheduler is gone.
        """
        try:
            return list(self.client.nthreads())
        except TROUBLE as error:
            raise HostError(
                f"the scheduler at {self.address} is gone ({error or type(error).__name__})",
                remedy="start it and its hosts again, then finish the run with --resume",
            ) from error

    def hosts(self) -> dict[str, Announcement]:
        """Return, by address, what the hosts that are there now have announced.

        Raises:
            HostError: the scheduler is gone.
        """
        here = self.workers()
        told = self.client.get_metadata([ANNOUNCED], {})
        return {
            address: Announcement(
                str(told[address]["host"]),
                str(told[address]["version"]),
                tuple(told[address]["phones"]),
                tuple(told[address]["left_out"]),
            )
            for address in here
            if address in told
        }

    def statuses(self) -> list[tuple[Announcement, list[dict[str, Any]] | str]]:
        """Return each host with what its phones do, or why it does not say."""

        def of(address: str) -> list[dict[str, Any]] | str:
            try:
                return list(self.ask(address, "status"))
            except FarmError as error:
                return str(error)

        return [(told, of(address)) for address, told in sorted(self.hosts().items(), key=lambda one: one[1].host)]

    def ask(self, host: str, method: str, *args: Any) -> Any:
        """Ask a host for something.

        Raises:
            HostLostError: it does not answer.
            FarmError: what it answered.
        """
        try:
            return self.client.run(ask, method, args, workers=[host])[host]
        except FarmError:
            raise
        except (*TROUBLE, KeyError) as error:
            raise HostLostError(f"host {host} does not answer ({error or type(error).__name__})") from error

    def submit(self, order: Order, host: str) -> Future[Any]:
        """Give an order to a host: one task, which has the phone to itself among tasks."""
        return self.client.submit(
            measure,
            order,
            key=f"mnn-farm-{order.id}",
            workers=[host],
            allow_other_workers=False,
            resources={resource_of(order.phone_id): 1},
            retries=0,
            pure=False,
        )

    def stop(self) -> int:
        """End all hosts in order, then the scheduler; return how many hosts there were.

        Raises:
            HostError: a host did not end in time; the scheduler stays.
        """
        hosts = self.hosts()
        self.client.run(ask_to_stop, workers=list(hosts), on_error="ignore")
        end = time.monotonic() + STOP_S
        while left := set(self.workers()) & set(hosts):
            if time.monotonic() > end:
                names = ", ".join(sorted(hosts[one].host for one in left))
                raise HostError(f"these hosts did not end within {STOP_S:g} s: {names}", remedy="look at them there")
            time.sleep(0.1)
        self.client.shutdown()
        return len(hosts)
