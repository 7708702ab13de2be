"""The probe on a phone: put there, asked for facts and hashes, and told to supervise runs."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from harness.core.deadline import Deadline
from harness.core.errors import ConfigError, ProbeError
from harness.core.reasons import Reason
from harness.core.transport import STDOUT, PushItem, Transport, checked
from harness.payload.probe_build import build_probe, source_hash
from harness.payload.probe_events import Event, RunLog, parse_event, parse_hash_line

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
    """

    argv: tuple[str, ...]
    work_dir: str
    deadline_s: float
    interval_ms: int = 100
    env: Mapping[str, str] | None = None


class Probe:
    """The probe on one phone."""

    def __init__(self, transport: Transport, path: str) -> None:
        self._transport = transport
        self.path = path

    @classmethod
    def install(cls, transport: Transport, progress: Callable[[str], None] | None = None) -> Probe:
        """Put the probe for the phone's ABI on it, unless it is there already.

        Raises:
            ConfigError: there is no probe for this phone's ABI.
            ProbeError: the phone does not run it (reason ``noexec`` when its folder forbids programs).
            PhoneError: the phone or the connection failed.
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

    def facts(self) -> dict[str, Any]:
        """Return what ``probe facts`` tells of the phone.

        Raises:
            ProbeError: it failed or what it printed is no JSON object.
        """
        deadline = Deadline(FACTS_S, "reading the phone's facts", self._transport.name)
        argv = [self.path, "facts"]
        result = checked(self._transport.shell(argv, deadline=deadline), self._transport.name, argv)
        try:
            facts = json.loads(result.stdout)
        except ValueError as error:
            raise ProbeError(self._transport.name, f"probe facts printed no JSON ({error})") from error
        if not isinstance(facts, dict):
            raise ProbeError(self._transport.name, "probe facts printed no JSON object")
        return facts

    def hash_tree(self, folder: str, seconds: float) -> dict[str, tuple[int, str]]:
        """Return size and SHA-256 of every file below ``folder`` on the phone; empty when there is none."""
        deadline = Deadline(seconds, f"hashing {folder} on the phone", self._transport.name)
        result = self._transport.shell([self.path, "hash", "--tree", folder], deadline=deadline)
        found: dict[str, tuple[int, str]] = {}
        for line in result.stdout.splitlines():
            try:
                entry = parse_hash_line(line)
            except ValueError as error:
                raise ProbeError(self._transport.name, f"probe hash printed what is no hash ({error})") from error
            # What cannot be read, or is no plain file, differs from every file there should be.
            found[entry.path] = (entry.size or 0, entry.sha256 or "")
        return found if result.exit_code == 0 else {}

    def run(
        self, spec: RunSpec, *, on_event: Callable[[Event], None] = lambda _: None, keep_raw: BinaryIO | None = None
    ) -> RunLog:
        """Supervise a command. Event lines are written to ``keep_raw`` as they come, so that a lost phone leaves them.

        Raises:
            ProbeError: the probe refused, or its events end before the run did.
            PhoneError: the phone or the connection failed.
        """
        deadline = Deadline(spec.deadline_s + RUN_GRACE_S, f"a run of {spec.argv[0]}", self._transport.name)
        argv = [self.path, "run", "--dir", f"{spec.work_dir}/probe", "--cwd", spec.work_dir]
        argv += ["--interval-ms", str(spec.interval_ms), "--deadline-ms", str(int(spec.deadline_s * 1000))]
        for key, value in (spec.env or {}).items():
            argv += ["--env", f"{key}={value}"]
        argv += ["--", *spec.argv]
        log = RunLog()
        errors = bytearray()
        pending = bytearray()
        with self._transport.stream(argv, deadline=deadline) as stream:
            for fd, chunk in stream:
                if fd != STDOUT:
                    errors += chunk[: 64 * 1024 - len(errors)]
                    continue
                if keep_raw is not None:
                    keep_raw.write(chunk)
                pending += chunk
                *lines, rest = bytes(pending).split(b"\n")
                pending = bytearray(rest)
                if len(pending) > _MAX_LINE_BYTES:
                    raise ProbeError(self._transport.name, "the probe printed a line without an end")
                for line in lines:
                    self._feed(log, line, on_event)
        if log.end is None:
            said = errors.decode("utf-8", "replace").strip()
            raise ProbeError(self._transport.name, f"the probe ended without an end event ({said or 'no message'})")
        return log

    def _feed(self, log: RunLog, line: bytes, on_event: Callable[[Event], None]) -> None:
        try:
            event = parse_event(line)
        except ValueError as error:
            raise ProbeError(self._transport.name, f"the probe printed what is no event ({error})") from error
        log.add(event)
        on_event(event)


def _abi(transport: Transport, deadline: Deadline) -> str:
    """Return the ABI for which a static program runs on the phone, from its kernel's machine name."""
    argv = ["uname", "-m"]
    result = checked(transport.shell(argv, deadline=deadline), transport.name, argv)
    machine = result.stdout.decode("utf-8", "replace").strip()
    known = {"aarch64": "arm64-v8a", "x86_64": "x86_64"}
    if machine not in known:
        raise ConfigError(
            f"{transport.name}: no probe for its machine {machine!r}", remedy=f"known are {', '.join(sorted(known))}"
        )
    return known[machine]
