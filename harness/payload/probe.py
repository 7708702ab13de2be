"""The probe on a phone: put there, asked for facts and hashes, and told to supervise runs."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO, TypeVar

from harness.core.deadline import Deadline
from harness.core.errors import AdbFailedError, PhoneError, ProbeError, RunGoneError, storage_reason
from harness.core.reasons import Reason
from harness.core.transport import STDOUT, PushItem, Transport, checked
from harness.payload.probe_bandwidth import parse_bandwidth
from harness.payload.probe_build import build_probe, source_hash
from harness.payload.probe_events import End, Event, RunLog, Start, parse_event
from harness.payload.probe_facts import parse_facts
from harness.payload.probe_files import Residency, parse_hash_line, parse_residency
from harness.payload.probe_lease import LeaseAnswer, parse_lease_line
from harness.phone.facts import MACHINE_ABIS
from harness.phone.probed import ProbeFacts

_Answer = TypeVar("_Answer")

INSTALL_S = 60.0
FACTS_S = 30.0
# How much longer than the run's own deadline the connection may take to say that it ended.
RUN_GRACE_S = 15.0
# A line that never ends must not fill this computer's memory.
_MAX_LINE_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class RunSpec:
    """One supervised run.

    Attributes:
        argv: the command, as on the phone.
        work_dir: a fresh folder on the phone; events and caches of this run lie there, and the command starts in it.
        deadline_s: after so many seconds the whole process group is killed.
        interval_ms: time between samples.
        env: variables added to the phone's own.
        silence_s: after so many seconds without output it is ended too; ``None``: never.
        trips: thermal zone type (or an extended regular expression for it) → reading, in the zone's own unit, at which
            the run is ended.
        lease: the file of a lease on the phone that is extended while this runs, with its id.
        cpus: the cores it may use, e.g. ``0,4-7``; ``None``: as the phone likes. Samples then tell whether it holds.
        cwd: where the command starts; ``None``: in ``work_dir``.
    """

    argv: tuple[str, ...]
    work_dir: str
    deadline_s: float
    interval_ms: int = 100
    env: Mapping[str, str] | None = None
    silence_s: float | None = None
    trips: Mapping[str, int] | None = None
    lease: tuple[str, str] | None = None
    cpus: str | None = None
    cwd: str | None = None

    @property
    def events_dir(self) -> str:
        """The folder of this run's events, by which it is found again."""
        return f"{self.work_dir}/probe"

    def command(self, probe: str) -> list[str]:
        """Return the probe's command line, ``--detach`` not included."""
        argv = [probe, "run", "--dir", self.events_dir, "--cwd", self.cwd or self.work_dir]
        argv += ["--interval-ms", str(self.interval_ms), "--deadline-ms", str(int(self.deadline_s * 1000))]
        if self.silence_s is not None:
            argv += ["--silence-ms", str(int(self.silence_s * 1000))]
        for zone, limit in (self.trips or {}).items():
            argv += ["--trip-milli-c", f"{zone}={limit}"]
        if self.cpus is not None:
            argv += ["--cpus", self.cpus]
        if self.lease is not None:
            argv += ["--lease", self.lease[0], "--lease-id", self.lease[1]]
        for key, value in (self.env or {}).items():
            argv += ["--env", f"{key}={value}"]
        return [*argv, "--", *self.argv]


class Probe:
    """The probe on one phone."""

    def __init__(self, transport: Transport, path: str) -> None:
        self._transport = transport
        self.path = path

    @classmethod
    def install(cls, transport: Transport, progress: Callable[[str], None] | None = None) -> Probe:
        """Put the probe for the phone's ABI on it, unless it is there already.

        Raises:
            ProbeError: the phone does not run it (reason ``noexec`` when its folder forbids programs).
            PhoneError: the phone or the connection failed, or there is no probe for its ABI (``abi_mismatch``).
        """
        deadline = Deadline(INSTALL_S, "putting the probe on the phone", transport.name)
        abi = _abi(transport, deadline)
        path = f"{transport.base_dir}/bin/probe-{source_hash()[:16]}-{abi}"
        probe = cls(transport, path)
        if probe._runs(deadline):
            return probe
        local = build_probe(abi, progress=progress)
        deadline = Deadline(INSTALL_S, "putting the probe on the phone", transport.name)
        temporary = f"{path}.{secrets.token_hex(4)}"
        transport.push([PushItem(local, temporary, 0o755)], deadline=deadline)
        move = ["mv", "-f", temporary, path]
        checked(transport.shell(move, deadline=deadline), transport.name, move)
        if not probe._runs(deadline):
            result = transport.shell([path, "version"], deadline=deadline)
            said = (result.stderr or result.stdout).decode("utf-8", "replace").strip()
            denied = "Permission denied" in said or result.exit_code == 126
            raise ProbeError(
                transport.name,
                f"the phone does not run {path} (exit code {result.exit_code}: {said})",
                reason=Reason.NOEXEC if denied else None,
            )
        return probe

    def _runs(self, deadline: Deadline) -> bool:
        result = self._transport.shell([self.path, "version"], deadline=deadline)
        try:
            return result.exit_code == 0 and json.loads(result.stdout)["source"] == source_hash()
        except (ValueError, KeyError, TypeError):
            return False

    def facts(self) -> ProbeFacts:
        """Return what ``probe facts`` tells of the phone.

        Raises:
            ProbeError: it failed or what it printed is no answer of it.
        """
        deadline = Deadline(FACTS_S, "reading the phone's facts", self._transport.name)
        argv = [self.path, "facts"]
        result = checked(self._transport.shell(argv, deadline=deadline), self._transport.name, argv)
        if not result.stdout.endswith(b"\n"):
            raise self._failed(deadline.what, result.exit_code, result.stderr)
        try:
            return parse_facts(result.stdout)
        except ValueError as error:
            raise ProbeError(self._transport.name, str(error)) from error

    def hash_tree(
        self, folder: str, seconds: float, *, stamp: str | None = None, trust_s: int = 0
    ) -> dict[str, tuple[int, str]]:
        """Return size and SHA-256 of every file below ``folder`` on the phone; empty when there is none.

        Args:
            folder: what to hash.
            seconds: how long that may take.
            stamp: a file on the phone that remembers hashes of files for as long as they are unchanged.
            trust_s: how old a remembered hash may be to be taken instead of reading the file; 0 reads every file.
        """
        deadline = Deadline(seconds, f"hashing {folder} on the phone", self._transport.name)
        argv = [self.path, "hash", "--tree", folder]
        if stamp is not None:
            argv += ["--stamp", stamp, "--trust-s", str(trust_s)]
        result = self._transport.shell(argv, deadline=deadline)
        found: dict[str, tuple[int, str]] = {}
        for line in result.stdout.splitlines():
            try:
                entry = parse_hash_line(line)
            except ValueError as error:
                raise ProbeError(self._transport.name, f"probe hash printed what is no hash ({error})") from error
            # What cannot be read, or is no plain file, differs from every file there should be.
            found[entry.path] = (entry.size or 0, entry.sha256 or "")
        return found if result.exit_code == 0 else {}

    def evict(self, folder: str, seconds: float) -> Residency:
        """Drop every file below ``folder`` from the phone's page cache, and return what is in memory nevertheless.

        Raises:
            ProbeError: there is no such folder, or what the probe printed is no answer.
            PhoneError: the phone or the connection failed.
        """
        return self._residency([self.path, "evict", "--tree", folder], folder, seconds)

    def residency(self, folder: str, seconds: float) -> Residency:
        """Return how much of the files below ``folder`` is in memory; see :meth:`evict` for errors."""
        return self._residency([self.path, "evict", "--show", "--tree", folder], folder, seconds)

    def _residency(self, argv: list[str], folder: str, seconds: float) -> Residency:
        what = f"looking for {folder} in the phone's memory"
        result = self._transport.shell(argv, deadline=Deadline(seconds, what, self._transport.name))
        told = self._read(parse_residency, result.stdout)
        # with errors of single files it ends with 1
        if result.exit_code not in (0, 1) or (result.exit_code == 1) != bool(told.errors):
            raise self._failed(what, result.exit_code, result.stderr)
        if folder in told.errors:
            raise ProbeError(self._transport.name, f"{what} failed ({told.errors[folder]})")
        return told

    def run(
        self, spec: RunSpec, *, on_event: Callable[[Event], None] = lambda _: None, keep_raw: BinaryIO | None = None
    ) -> RunLog:
        """Supervise a command. Event lines are written to ``keep_raw`` as they come, so that a lost phone leaves them.

        Raises:
            ProbeError: the probe refused, or its events end before the run did.
            PhoneError: the phone or the connection failed.
        """
        deadline = Deadline(spec.deadline_s + RUN_GRACE_S, f"a run of {spec.argv[0]}", self._transport.name)
        return self._follow(spec.command(self.path), deadline, on_event, keep_raw, RunLog())

    def start(self, spec: RunSpec) -> Start:
        """Begin a run that goes on whatever becomes of the connection; :meth:`attach` follows it.

        Raises:
            ProbeError: the probe refused.
            PhoneError: the phone or the connection failed.
        """
        argv = spec.command(self.path)
        argv.insert(2, "--detach")
        event = self._read(parse_event, self._ask(argv, f"the start of {spec.argv[0]}"))
        if not isinstance(event, Start):
            raise ProbeError(self._transport.name, "the probe began a run without a start event")
        return event

    def attach(
        self,
        events_dir: str,
        seconds: float,
        *,
        into: RunLog | None = None,
        idle_s: float | None = None,
        on_event: Callable[[Event], None] = lambda _: None,
        keep_raw: BinaryIO | None = None,
    ) -> RunLog:
        """Follow a run, live or ended, to its end.

        Args:
            events_dir: the run's folder of events, see :attr:`RunSpec.events_dir`.
            seconds: how long to wait for the end.
            into: what an earlier call read; it is gone on with where that stopped.
            idle_s: how long nothing may come. A live run tells something at each of its samples.
            on_event: called with each event.
            keep_raw: takes each whole line as it comes.

        Raises:
            RunGoneError: there is no such run, or its probe was killed.
            ProbeError: what came is not its protocol.
            PhoneError: the phone or the connection failed; ``into`` has all that came until then.
        """
        log = into if into is not None else RunLog()
        deadline = Deadline(seconds, f"the end of the run in {events_dir}", self._transport.name)
        argv = [self.path, "attach", events_dir, "--from", str(log.size)]
        return self._follow(argv, deadline, on_event, keep_raw, log, idle_s)

    def stop(self, events_dir: str) -> End:
        """End exactly that run, and return how it ended (which may have been before).

        Raises:
            RunGoneError: there is no such run, or its probe was killed.
            ProbeError: it cannot be ended.
            PhoneError: the phone or the connection failed.
        """
        event = self._read(parse_event, self._ask([self.path, "stop", events_dir], f"stopping {events_dir}"))
        if not isinstance(event, End):
            raise ProbeError(self._transport.name, "the probe stopped a run without an end event")
        return event

    def bandwidth(
        self, threads: Sequence[int], *, seconds: float = 1.0, megabytes: int = 256, cpus: str | None = None
    ) -> Mapping[int, float]:
        """Measure memory read bandwidth in GB/s by number of threads, ``seconds`` each: the best slice of that time.

        Args:
            threads: numbers of threads to measure with.
            seconds: how long for each.
            megabytes: how much memory is read over and over; the probe takes more when the caches are large, and never
                more than a quarter of what is available.
            cpus: cores to stay on, one for each thread, e.g. ``4-7``; ``None``: as the phone likes.

        Raises:
            ProbeError: the probe refused or what it printed is no answer.
            PhoneError: the phone or the connection failed.
        """
        argv = [self.path, "bandwidth", "--threads", ",".join(map(str, threads))]
        argv += ["--seconds", str(seconds), "--mb", str(megabytes)]
        argv += ["--cpus", cpus] if cpus is not None else []
        answer = self._ask(argv, "measuring memory bandwidth", FACTS_S + seconds * len(threads))
        return self._read(parse_bandwidth, answer)

    def take_lease(self, file: str, *, owner: str, host: str, purpose: str, ttl_s: int) -> LeaseAnswer:
        """Take the phone, or learn who has it; kept by the phone until it ends or ``ttl_s`` is over.

        Raises:
            ProbeError: the probe refused or what it printed is no answer.
            PhoneError: the phone or the connection failed.
        """
        argv = [self.path, "lease", file, "--owner", owner, "--host", host, "--purpose", purpose, "--ttl", str(ttl_s)]
        return self._read(parse_lease_line, self._ask(argv, "taking the phone"))

    def show_lease(self, file: str) -> LeaseAnswer:
        """Return who has the phone; see :meth:`take_lease` for errors."""
        return self._read(parse_lease_line, self._ask([self.path, "lease-show", file], "asking who has the phone"))

    def extend_lease(self, file: str, lease_id: str) -> LeaseAnswer:
        """Let our lease last its whole length from now on: ``taken``; else it is ``free`` or ``held`` by another.

        See :meth:`take_lease` for errors.
        """
        argv = [self.path, "lease-extend", file, "--id", lease_id]
        return self._read(parse_lease_line, self._ask(argv, "keeping the phone"))

    def end_lease(self, file: str, lease_id: str) -> LeaseAnswer:
        """Give the phone back; ``held`` when it is somebody else's. See :meth:`take_lease` for errors."""
        argv = [self.path, "lease-end", file, "--id", lease_id]
        return self._read(parse_lease_line, self._ask(argv, "giving the phone back"))

    def _ask(self, argv: list[str], what: str, seconds: float = FACTS_S) -> bytes:
        """Run a verb that answers with one line."""
        result = self._transport.shell(argv, deadline=Deadline(seconds, what, self._transport.name))
        if not result.stdout.endswith(b"\n"):
            raise self._failed(what, result.exit_code, result.stderr)
        return result.stdout

    def _failed(self, what: str, exit_code: int | None, stderr: bytes) -> PhoneError:
        """Return the error of a verb without an answer. One that says that all went well was cut short on its way."""
        said = stderr.decode("utf-8", "replace").strip()
        if exit_code == 0:
            return AdbFailedError(self._transport.name, f"{what}: the answer did not arrive whole")
        text = f"{what} failed ({said or f'exit code {exit_code}'})"
        if "there is no run in " in said or "its probe was killed" in said:
            return RunGoneError(self._transport.name, text)
        reason = Reason.LEASE_LOST if "the lease in " in said else storage_reason(said)
        return ProbeError(self._transport.name, text, reason=reason)

    def _read(self, parse: Callable[[bytes], _Answer], line: bytes) -> _Answer:
        try:
            return parse(line)
        except ValueError as error:
            raise ProbeError(self._transport.name, str(error)) from error

    def _follow(
        self,
        argv: list[str],
        deadline: Deadline,
        on_event: Callable[[Event], None],
        keep_raw: BinaryIO | None,
        log: RunLog,
        idle_s: float | None = None,
    ) -> RunLog:
        errors = bytearray()
        pending = bytearray()
        with self._transport.stream(argv, deadline=deadline, idle_s=idle_s) as stream:
            for fd, chunk in stream:
                if fd != STDOUT:
                    errors += chunk[: 64 * 1024 - len(errors)]
                    continue
                pending += chunk
                whole = pending.rfind(b"\n") + 1
                for line in bytes(pending[:whole]).split(b"\n")[:-1]:
                    if keep_raw is not None:
                        keep_raw.write(line + b"\n")
                    self._feed(log, line + b"\n", on_event)
                del pending[:whole]
                if len(pending) > _MAX_LINE_BYTES:
                    raise ProbeError(self._transport.name, "the probe printed a line without an end")
        if log.end is None:
            raise self._failed(deadline.what, stream.exit_code, bytes(errors))
        return log

    def _feed(self, log: RunLog, line: bytes, on_event: Callable[[Event], None]) -> None:
        try:
            event = log.feed(line)
        except ValueError as error:
            raise ProbeError(self._transport.name, f"the probe printed what is no event ({error})") from error
        if event is not None:
            on_event(event)


def _abi(transport: Transport, deadline: Deadline) -> str:
    """Return the ABI for which a static program runs on the phone, from its kernel's machine name."""
    argv = ["uname", "-m"]
    result = checked(transport.shell(argv, deadline=deadline), transport.name, argv)
    machine = result.stdout.decode("utf-8", "replace").strip()
    if machine not in MACHINE_ABIS:
        known = ", ".join(sorted(MACHINE_ABIS))
        raise PhoneError(
            transport.name,
            f"no program of ours runs on its machine {machine[:40]!r}",
            remedy=f"known are {known}",
            reason=Reason.ABI_MISMATCH,
        )
    return MACHINE_ABIS[machine]
