"""One phone's session: cell after cell, each ending in exactly one appended record, whatever becomes of the phone."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from harness.adb.transport import AdbTransport
from harness.bench.account import Account
from harness.bench.attempt import Attempt
from harness.bench.bandwidth import Bandwidth, measure_bandwidth
from harness.bench.context import RunContext
from harness.bench.crash import record_with_bundle
from harness.bench.evidence import Objection
from harness.bench.lease import Keeper
from harness.bench.leave import leave_as_found
from harness.bench.phone import ConnectedPhone
from harness.bench.phone_log import LogReader
from harness.bench.progress import Say
from harness.bench.recovery import Known, Ladder, Recovered
from harness.bench.tidy import tidy
from harness.bench.vitals import Vitals
from harness.core.deadline import Deadline
from harness.core.errors import FarmError, HostError, PhoneGoneError
from harness.core.ids import utc_now
from harness.core.reasons import Fault, Reason, Verdict
from harness.payload.folder import PayloadFolder
from harness.payload.probe_events import Event
from harness.payload.push_slots import PushSlots, link_of
from harness.payload.store import Stored, ensure_on_phone
from harness.phone.battery import Battery
from harness.phone.charge import charge_gate
from harness.phone.health import HealthStore
from harness.phone.prepare import prepare
from harness.plan.matrix import PlannedCell
from harness.plan.model import Cool
from harness.store.runfolder import RunFolder
from harness.store.schema import CellRecord

_log = logging.getLogger(__name__)

# What other people or this computer did says nothing about a phone's health.
# After one of these every byte of the payloads is hashed again, once a session: perhaps they rotted on the phone.
_DOUBTFUL = frozenset(
    {
        Reason.OUTPUT_WRONG,
        Reason.OUTPUT_DEGENERATE,
        Reason.CRASH,
        Reason.ILLEGAL_INSTRUCTION,
        Reason.LINK_ERROR,
        Reason.LOAD_ERROR,
        Reason.ENGINE_ERROR,
        Reason.SILENT_EXIT,
    }
)
_NOT_OF_THE_PHONE = frozenset({Reason.HOST_DISK_FULL, Reason.LEASE_LOST})
PREPARE_S = 60.0


@dataclass
class PhoneSession:
    """Runs cells on one phone. Never two at once.

    Attributes:
        watch: called with every event of every run, for displays.
        gone: why the phone was given up; no cell is begun on it any more.
    """

    phone: ConnectedPhone
    context: RunContext
    say: Say
    watch: Callable[[Event], None] = lambda _: None
    gone: PhoneGoneError | None = None
    _stored: dict[str, Stored] = field(default_factory=dict)
    _doubted: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        known = Known(self.phone.identity.id, self.phone.facts.boot_id)
        self._ladder = Ladder(self.phone.transport, self.context.plan.recovery, self.say, known=known)
        self.vitals = Vitals(self.phone.transport)
        self._reader = LogReader(self.phone.transport, self.phone.facts.sdk)
        self._keeper: Keeper | None = None
        self._prepared = False
        self._tripped = False
        self._battery: Battery | None = None
        self._bandwidth = Bandwidth()

    @property
    def ladder(self) -> Ladder:
        """The phone's ladder."""
        return self._ladder

    @property
    def log(self) -> LogReader | None:
        """The phone's log; ``None`` where there is no Android."""
        return self._reader if self._is_android else None

    @property
    def battery(self) -> Battery | None:
        """The battery as it was read last, before the run; ``None`` on what has none."""
        return self._battery

    @property
    def cool(self) -> Cool | None:
        """The plan's gate; after a run that was ended for heat, a rest."""
        plan = self.context.plan
        return plan.trip.rest if self._tripped and plan.cool is None else plan.cool

    def run_cell(self, cell: PlannedCell) -> CellRecord:
        """Run one cell to its verdict and append its record.

        Raises:
            FarmError: the record could not be written; everything else ends in a record.
        """
        account = Account(self.phone, self.context, cell)
        try:
            if self.gone is not None:
                raise FarmError(f"{self.phone.name} was given up: {self.gone.message}", reason=Reason.PHONE_GONE)
            objections = Attempt(self, account).run()
            result = self._record(account, objections)
        except PhoneGoneError as error:
            self.gone = error
            _log.warning("[%s] %s: %s", self.phone.name, cell.label, error)
            result = account.record([Objection(error.reason, str(error))])
        except FarmError as error:
            _log.info("[%s] %s: %s", self.phone.name, cell.label, error)
            result = self._record(account, [Objection(error.reason, str(error))])
        except Exception as error:  # noqa: BLE001  our own bug costs one cell, not the night: it is recorded as ours
            _log.exception("[%s] %s", self.phone.name, cell.label)
            # Perhaps it was over this very evidence.
            account.evidence = None
            objection = Objection(Reason.HARNESS_ERROR, f"{type(error).__name__}: {error}")
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                account.drop_raw()
                why = f"what the phone told could not be kept below {self.context.run_dir} ({error.strerror})"
                objection = Objection(Reason.HOST_DISK_FULL, why)
            result = account.record([objection])
        RunFolder(self.context.run_dir).append(result)
        self.say(f"{cell.model} {cell.label}: {_in_short(result)}")
        self._keep_in_mind(result)
        self._doubt(result)
        self._tripped = result.why is Reason.THERMAL_TRIP
        return result

    def _record(self, account: Account, objections: list[Objection]) -> CellRecord:
        return record_with_bundle(account, objections, self.say, is_android=self._is_android)

    def _doubt(self, record: CellRecord) -> None:
        """Have the payloads of a cell looked at whole before the next, if they may be what went wrong."""
        if record.why not in _DOUBTFUL:
            return
        of_cell = {key for key in self._stored if key.startswith("bundles/") or key == f"models/{record.model.hash}"}
        for key in of_cell - self._doubted:
            self._doubted.add(key)
            del self._stored[key]

    def _keep_in_mind(self, record: CellRecord) -> None:
        """Tell the phone's health, which outlives the run. That it cannot be told costs no measurement."""
        reason, phone = record.why, self.phone
        name, port = phone.name, phone.endpoint.port
        of_host = reason in _NOT_OF_THE_PHONE or (self.gone is not None and self.gone.of_host)
        try:
            health = HealthStore()
            if reason is None:
                health.note_success(phone.identity.id)
            elif of_host or reason.fault is not Fault.INFRA or reason.verdict is not Verdict.FAILED:
                return
            elif self.gone is not None and self.context.plan.recovery.quarantine:
                health.quarantine(phone.identity.id, name, port, reason.code, record.detail, utc_now())
            else:
                health.note_failure(phone.identity.id, name, port, reason.code, record.detail, utc_now())
        except HostError as error:
            _log.warning("[%s] its health could not be noted: %s", name, error)

    def record_failure(self, cell: PlannedCell, error: FarmError, *, begun: bool = False) -> CellRecord:
        """Append the record of a cell that ended outside of :meth:`run_cell`.

        ``begun``: a process that is dead had begun it.
        """
        account = Account(self.phone, self.context, cell)
        if begun:
            account.take_over()
        result = account.record([Objection(error.reason, str(error))])
        RunFolder(self.context.run_dir).append(result)
        return result

    def close(self) -> None:
        """Leave the phone as it was found and give it back. What cannot be done now is done when it is next seen."""
        if self._keeper is not None:
            self._keeper.__exit__(None, None, None)
        leave_as_found(self.phone, self.say)

    def make_ready(self, account: Account) -> None:
        """Have the phone to ourselves; see :class:`harness.bench.attempt.Session`."""
        self._look_at_it(account)
        lease = self.phone.lease
        if lease is not None:
            lease.renew()
            # What runs there now is of a worker before us, or of a cell that could not end it.
            tidy(self.phone.transport, self.phone.probe)
            if self._keeper is None:
                self._keeper = Keeper(lease).__enter__()
            while lease.notes:
                account.note("lease", lease.notes.pop(0), warning=True)
        if not self._prepared:
            self._prepare(account)
        self._check_battery(account)

    def _look_at_it(self, account: Account) -> None:
        """Make sure that it is still the same phone, before anything is measured in its name."""
        seen = self._ladder.recognise()
        if seen.rebooted:
            self.came_back(seen, account)

    @property
    def _is_android(self) -> bool:
        facts = self.phone.facts
        return facts.sdk is not None or facts.android_release is not None

    def _prepare(self, account: Account) -> None:
        if not self._is_android:
            self._prepared = True
            account.note("prepare", "it has no Android whose settings could be prepared")
            return
        deadline = Deadline(PREPARE_S, "preparing the phone", self.phone.name)
        done = prepare(self.phone.transport, self.context.plan.prepare, self.say, deadline)
        self._prepared = True
        if done.changes:
            told = ", ".join(f"{change.what} {change.old} → {change.new}" for change in done.changes)
            account.note("prepared", f"changed, and to be put back: {told}")
        if done.foreground is not None:
            account.note("foreground_app", f"in front: {done.foreground}")
        for note in done.notes:
            account.note("prepare", note)
        for what, why in done.refused.items():
            account.note("prepare_refused", f"{what} could not be set: {why}", warning=True)

    def _check_battery(self, account: Account) -> None:
        """Wait for the battery's floor.

        Raises:
            FarmError: it is not reached (reason ``low_battery``).
        """
        asked = self.context.plan.prepare
        if not self._is_android:
            return

        def read() -> Battery:
            self._battery = self.vitals.battery_before()
            return self._battery

        note = charge_gate(read, asked.battery_floor_pct, asked.charge_timeout_s, self.say, phone=self.phone.name)
        if note:
            account.note("battery", note)

    def came_back(self, recovered: Recovered, account: Account) -> None:
        """Take note of how the phone came back; what it has is looked at again."""
        self._stored.clear()
        self.vitals.forget()
        if recovered.rebooted:
            self._prepared = False
        if recovered.rebooted or not self._bandwidth.gb_per_s:
            self._bandwidth = Bandwidth()
        how = ", ".join((*recovered.rungs, *(["it had rebooted"] if recovered.rebooted else [])))
        account.note(
            "recovered", f"the phone was lost and came back ({how or 'the step was done again'})", warning=True
        )

    def bandwidth(self, *, again: bool = False) -> Bandwidth:
        """Return how fast the phone's memory can be read: measured once a boot, and ``again`` where that is doubted."""
        if self.context.plan.roofline.measure and (again or self._bandwidth == Bandwidth()):
            self.say("measuring the memory's bandwidth")
            self._bandwidth = self._bandwidth.or_better(measure_bandwidth(self.phone.probe, self.phone.facts))
        return self._bandwidth

    @property
    def _slots(self) -> PushSlots | None:
        """The push slots of the link to the phone; what is not on adb shares none with others."""
        phone = self.phone
        on_adb = isinstance(phone.transport, AdbTransport)
        return PushSlots(link_of(phone.endpoint), self.context.push_slots) if on_adb else None

    def bring(self, kind: str, payload: PayloadFolder, label: str) -> str:
        """Bring a payload to the phone, once per session, and return its folder there; see ``ensure_on_phone``.

        What was doubted meanwhile is looked at again, every byte.
        """
        key = f"{kind}/{payload.hash}"
        if key not in self._stored:
            in_use = {model.folder.hash for model in self.context.models.values()}
            in_use |= {brought.partition("/")[2] for brought in self._stored}
            self._stored[key] = ensure_on_phone(
                self.phone.transport,
                self.phone.probe,
                payload,
                kind=kind,
                label=label,
                in_use=in_use,
                say=self.say,
                trust=key not in self._doubted,
                slots=self._slots,
            )
        return self._stored[key].path


def _in_short(record: CellRecord) -> str:
    if record.reason is not None:
        return f"{record.verdict.value}, {record.reason}"
    metrics = record.metrics
    if metrics is not None and metrics.latency_ms is not None:
        return f"ok, {metrics.latency_ms.p50:.2f} ms an inference"
    decode = metrics.decode_tps if metrics is not None else None
    return "ok" if decode is None else f"ok, {decode.median:.1f} tok/s decode"
