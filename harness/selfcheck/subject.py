"""The phone under check: how it is reached, what is known of it, and what its runs told, kept for the parcel."""

from __future__ import annotations

import io
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any, TypeVar

from harness.adb.server import AdbServer
from harness.bench.recovery import Ladder
from harness.core.deadline import Deadline
from harness.core.errors import ConfigError, HostError, PhoneError
from harness.core.resources import data_root
from harness.core.transport import ShellResult, Transport
from harness.payload.bundle import read_bundle
from harness.payload.bundle_manifest import Target
from harness.payload.probe import Probe, RunSpec
from harness.payload.probe_events import Event, RunLog, Start
from harness.payload.store import ensure_on_phone
from harness.phone.facts import MACHINE_ABIS
from harness.phone.prepare import Prepared
from harness.phone.probed import ProbeFacts
from harness.plan.model import Recovery
from harness.selfcheck.result import NotCheckableError

Say = Callable[[str], None]
_Brought = TypeVar("_Brought")

TOTAL_S = 600.0
SHELL_S = 20.0
# How long a phone that was lost may take to come back.
RETURN_S = 30.0
SAMPLE_MS = 50
_QUIET_S = 1.5


def _nothing(_event: Event) -> None:
    """Nobody listens."""


@dataclass
class Subject:
    """One phone, for one self-check.

    Attributes:
        transport: how it is reached.
        server: the adb server that has it; ``None`` when it is not on adb.
        say: tells the person what happens.
        ask_cable: whether the person may be asked to pull the cable.
        deadline: of the whole check.
        raw: by file name, what goes into the parcel as it came.
        work: our folder on the phone for this check.
        prepared: what the preparation came to.
        to_restore: settings may have been changed and are not back yet.
    """

    transport: Transport
    server: AdbServer | None
    say: Say = lambda _text: None
    ask_cable: bool = False
    raw: dict[str, bytes] = field(default_factory=dict)
    work: str = ""
    prepared: Prepared | None = None
    to_restore: bool = False
    deadline: Deadline = field(init=False)
    _failed: dict[str, str] = field(default_factory=dict)
    _started: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.work = f"{self.transport.base_dir}/work/selfcheck-{secrets.token_hex(4)}"
        self.deadline = Deadline(TOTAL_S, "the self-check", self.transport.name)

    @property
    def serial(self) -> str:
        """The serial by which its connection lists it."""
        return self.transport.serial

    def shell(self, *argv: str, stdin: bytes = b"", seconds: float = SHELL_S) -> ShellResult:
        """Run a command on the phone and wait for it."""
        deadline = self.deadline.within(seconds, f"{PurePosixPath(argv[0]).name} on the phone")
        return self.transport.shell(argv, deadline=deadline, stdin=stdin)

    def text(self, *argv: str) -> str:
        """Return what a command printed, ``""`` when it failed."""
        result = self.shell(*argv)
        return result.stdout.decode("utf-8", "replace").strip() if result.exit_code == 0 else ""

    @cached_property
    def probe(self) -> Probe:
        """The probe on the phone.

        Raises:
            NotCheckableError: it could not be put there before; the reason was told then.
            FarmError: it cannot be put there.
        """
        return self._once("the probe", lambda: Probe.install(self.transport, progress=self.say))

    @cached_property
    def facts(self) -> ProbeFacts:
        """What the probe tells of the phone."""
        return self.probe.facts()

    @cached_property
    def runner(self) -> str:
        """The path of the synthetic runner on the phone; raises as :attr:`probe`."""
        return self._once("the synthetic runner", self._bring_runner)

    @cached_property
    def quiet_run(self) -> QuietRun:
        """A short run of ``sleep``, followed live: its log, and how long it took by this computer's clock."""
        return QuietRun.of(self)

    def wait_until_back(self, error: PhoneError, seconds: float = RETURN_S) -> None:
        """Do what brings a lost phone back, and wait until it answers.

        Raises:
            PhoneGoneError: it did not come back in time.
        """
        rules = Recovery(wait_s=min(seconds, self.deadline.remaining_s()))
        Ladder(self.transport, rules, self.say).climb(error)

    def fresh_folder(self, name: str) -> str:
        """Make an empty folder below our work folder and return its path."""
        path = f"{self.work}/{name}"
        result = self.shell("sh", "-c", 'rm -rf "$1" && mkdir -p "$1"', "sh", path)
        if result.exit_code != 0:
            raise NotCheckableError(f"{path} cannot be made ({said(result)})")
        return path

    def spec(self, name: str, argv: Sequence[str], deadline_s: float, **more: Any) -> RunSpec:
        """Describe a run in a fresh folder called ``name``."""
        more.setdefault("interval_ms", SAMPLE_MS)
        return RunSpec(argv=tuple(argv), work_dir=self.fresh_folder(name), deadline_s=deadline_s, **more)

    def start(self, spec: RunSpec) -> Start:
        """Begin a detached run; :meth:`clean_up` ends it if nothing else does."""
        self._started.append(spec.events_dir)
        return self.probe.start(spec)

    def clean_up(self) -> None:
        """End what we started and remove our work folder.

        Raises:
            PhoneError: phone or connection failed.
        """
        for folder in self._started:
            self.shell(self.probe.path, "stop", folder)  # of most there is nothing left to be ended
        self._started.clear()
        self.shell("rm", "-rf", self.work)

    def run(self, name: str, spec: RunSpec, on_event: Callable[[Event], None] = _nothing) -> RunLog:
        """Run and follow; what came is kept as ``NAME.jsonl`` even if the rest was lost."""
        with self.keep(name) as raw:
            return self.probe.run(spec, on_event=on_event, keep_raw=raw)

    @contextmanager
    def keep(self, name: str) -> Iterator[io.BytesIO]:
        """Hand out a buffer whose content is added to ``NAME.jsonl`` at the end, whatever happens."""
        raw = io.BytesIO()
        try:
            yield raw
        finally:
            self.raw[f"{name}.jsonl"] = self.raw.get(f"{name}.jsonl", b"") + raw.getvalue()

    def _once(self, what: str, bring: Callable[[], _Brought]) -> _Brought:
        """Try it once: every later user learns that it is missing, and the first one why."""
        if what in self._failed:
            raise NotCheckableError(f"{what} is not on the phone ({self._failed[what]})")
        try:
            return bring()
        except (PhoneError, HostError, ConfigError) as error:
            self._failed[what] = str(error)
            raise

    def _bring_runner(self) -> str:
        bundle = read_bundle(data_root() / "device_bins" / "runner" / "synthetic")
        abi = MACHINE_ABIS.get(self.facts.machine or "")
        payload = bundle.payload(Target((abi,) if abi else ()), self.say)
        stored = ensure_on_phone(
            self.transport, self.probe, payload, kind="bundles", label="the synthetic runner", say=self.say
        )
        return f"{stored.path}/{bundle.program}"


@dataclass(frozen=True)
class QuietRun:
    """A run of ``sleep`` and the seconds between its first and its last event, as they came in here."""

    log: RunLog
    seconds_here: float

    @classmethod
    def of(cls, subject: Subject) -> QuietRun:
        """Do it."""
        came: list[float] = []
        spec = subject.spec("quiet", ["sleep", str(_QUIET_S)], 30)
        log = subject.run("quiet", spec, on_event=lambda _event: came.append(time.monotonic()))
        return cls(log, came[-1] - came[0])


def said(result: ShellResult) -> str:
    """Return the end of what a command that failed said, or its exit code."""
    return (result.stderr or result.stdout).decode("utf-8", "replace").strip()[-200:] or f"exit code {result.exit_code}"
