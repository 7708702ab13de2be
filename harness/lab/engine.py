"""Dask.distributed as this lab uses it: a scheduler, workers with phones, and what is asked of a worker beside tasks.

Dask is imported when it is used: it is an optional extra, and other verbs must not take its time.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from types import ModuleType
from typing import TYPE_CHECKING, Any

from harness.core.errors import ConfigError, FarmError, HarnessError, HostError
from harness.core.resources import cache_dir
from harness.lab.address import Address
from harness.lab.host import Host
from harness.lab.order import Ended, Order

if TYPE_CHECKING:
    from distributed import Worker

EXTENSION = "mnn_farm"
# Where the scheduler keeps what hosts announce.
ANNOUNCED = "mnn-farm-hosts"
# What a controller may ask of a host.
ASKED = frozenset({"offer", "put", "finish", "orders", "news", "read", "forget", "refuse", "stop_run", "status"})
JOIN_S = 20.0
# How long phones may take to be left as they were found.
LEAVE_S = 90.0
# What Dask raises when somebody is not there, or the way to them broke.
TROUBLE = (OSError, TimeoutError, asyncio.TimeoutError, RuntimeError, ValueError)
_LOCAL = "127.0.0.1:0"
_SETTINGS = {
    # A host that dies takes no second one along: its cells are given out again by the controller, which keeps books.
    "distributed.scheduler.allowed-failures": 0,
    # A host that falls silent is given up before the leases on its phones lapse.
    "distributed.scheduler.worker-ttl": "60s",
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    "distributed.worker.profile.enabled": False,
    "distributed.comm.timeouts.connect": "15s",
    "distributed.admin.system-monitor.gil.enabled": False,
}


def dask_here() -> ModuleType:
    """Return Dask, set up for a lab.

    Raises:
        ConfigError: the extra is not installed.
    """
    try:
        import dask
        import distributed
    except ImportError as error:
        raise ConfigError(
            f"the lab needs Dask.distributed, which is not installed ({error.name})",
            remedy="run: pip install 'mnn-farm[lab]'",
        ) from error
    dask.config.set(_SETTINGS)
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what matters of it is said in our words
    return distributed


def resource_of(phone_id: str) -> str:
    """Return the name under which a phone is a resource of its host: one of each, so one task at a time has it."""
    return f"phone-{phone_id}"


async def ask(method: str, args: tuple[Any, ...], dask_worker: Worker) -> Any:
    """Ask a host for something, beside its tasks; ``None`` from a worker that is no lab host."""
    host = dask_worker.extensions.get(EXTENSION)
    if host is None:
        return None
    if method not in ASKED:
        raise ConfigError(f"a lab host answers no {method!r}")
    try:
        return await asyncio.to_thread(getattr(host.host, method), *args)
    except FarmError:
        raise
    except Exception as error:  # so that it is not taken for a host that does not answer
        raise HarnessError(f"host {host.host.name}: {method} failed: {type(error).__name__}: {error}") from error


async def ask_to_stop(dask_worker: Worker) -> None:
    """End a lab host in order: what SIGTERM does."""
    host = dask_worker.extensions.get(EXTENSION)
    if host is not None:
        host.end.set()


def measure(order: Order) -> Ended:
    """Do an order: the task that Dask runs, once, on the host that has the phone."""
    from distributed import get_worker

    host: Host = get_worker().extensions[EXTENSION].host
    return host.measure(order)


class _Extension:
    """Ties a host to its worker: one that Dask closes (its scheduler is gone, say) begins nothing any more."""

    def __init__(self, host: Host, end: asyncio.Event) -> None:
        self.host = host
        self.end = end

    def close(self) -> None:
        self.host.stop()


def serve(address: Address, host: Host, say: Callable[[str], None], port: int = 0) -> None:
    """Be a lab host until SIGTERM, Ctrl-C or ``mnn-farm lab stop``; phones are left as they were found.

    The scheduler connects to ``port``; 0 is any that is free.

    Raises:
        HostError: no scheduler answers, or it went away.
    """
    dask_here()
    asyncio.run(_serve(address, host, say, port))


async def _serve(address: Address, host: Host, say: Callable[[str], None], port: int) -> None:
    from distributed import Worker

    end = _end_on_signals()
    worker = Worker(
        str(address),
        nthreads=host.places,
        resources={resource_of(phone_id): 1 for phone_id in host.phone_ids},
        security=address.security(),
        name=f"{host.name}-{secrets.token_hex(3)}",
        host=address.listen_host,
        port=port,
        dashboard=False,
        dashboard_address=_LOCAL,
        local_directory=str(cache_dir("lab", "scratch")),
        memory_limit=0,
        death_timeout=JOIN_S,
    )
    worker.extensions[EXTENSION] = _Extension(host, end)
    try:
        await asyncio.wait_for(_begun(worker), JOIN_S)
    except TROUBLE as error:
        await worker.close(nanny=False)
        raise nobody_answers(address, error) from error
    await worker.scheduler.set_metadata(keys=[ANNOUNCED, worker.address], value=asdict(host.announcement()))
    say(f"host {host.name} serves {len(host.phone_ids)} phones to {address}; end it with Ctrl-C or SIGTERM")
    gone = asyncio.ensure_future(worker.finished())
    ending = asyncio.ensure_future(end.wait())
    await asyncio.wait({gone, ending}, return_when=asyncio.FIRST_COMPLETED)
    host.stop()
    say("leaving the phones as they were found")
    with suppress(asyncio.TimeoutError):
        await asyncio.wait_for(_idle(host), LEAVE_S)
    await asyncio.to_thread(host.close)
    told = end.is_set()
    ending.cancel()
    await worker.close(nanny=False, executor_wait=False)
    if not told:
        raise HostError(
            f"the scheduler at {address} is gone, or gave this host up", remedy="start it, then this host again"
        )


async def _begun(worker: Worker) -> None:
    await worker


async def _idle(host: Host) -> None:
    while host.busy:
        await asyncio.sleep(0.05)


def _end_on_signals() -> asyncio.Event:
    """Return an event that SIGTERM and Ctrl-C set."""
    end = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end.set)
    return end


def schedule(address: Address, say: Callable[[str], None]) -> None:
    """Be the lab's scheduler until SIGTERM, Ctrl-C or ``mnn-farm lab stop``.

    Raises:
        HostError: it cannot listen there.
    """
    dask_here()
    asyncio.run(_schedule(address, say))


async def _schedule(address: Address, say: Callable[[str], None]) -> None:
    from distributed import Scheduler

    end = _end_on_signals()
    scheduler = Scheduler(
        host=address.host,
        port=address.port,
        protocol=address.protocol,
        security=address.security(),
        dashboard=False,
        dashboard_address=_LOCAL,
    )
    try:
        await scheduler
    except OSError as error:
        raise HostError(
            f"no scheduler can listen at {address} ({error.strerror or error})", remedy="choose another port"
        ) from error
    say(f"the lab's scheduler listens at {scheduler.address}; end it with Ctrl-C or: mnn-farm lab stop")
    sys.stderr.flush()
    closed = asyncio.ensure_future(scheduler.finished())
    ending = asyncio.ensure_future(end.wait())
    await asyncio.wait({closed, ending}, return_when=asyncio.FIRST_COMPLETED)
    ending.cancel()
    await scheduler.close()


def nobody_answers(address: Address, error: BaseException) -> HostError:
    """Return the error of a scheduler that cannot be reached."""
    why = " ".join(str(error).split())[:200] or type(error).__name__
    return HostError(
        f"no scheduler of a lab can be used at {address} ({why})",
        remedy="start it: mnn-farm lab scheduler --listen ADDRESS; with TLS all need keys of the same authority",
    )
