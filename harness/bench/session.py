"""One phone's session: payloads brought once, then cell after cell, each ending in exactly one appended record."""

from __future__ import annotations

import errno
import json
import logging
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

import harness
from harness.bench import record as make
from harness.bench.cool import wait_until_cool
from harness.bench.phone import ConnectedPhone
from harness.bench.support import ruled_out
from harness.bench.validity import Evidence, Objection, judge
from harness.core.deadline import Deadline
from harness.core.errors import FarmError, PhoneError
from harness.core.ids import content_id, iso, utc_now
from harness.core.reasons import Fault, Reason, Verdict
from harness.core.resources import cache_dir
from harness.payload.bundle import Bundle
from harness.payload.folder import PayloadFolder
from harness.payload.models import ModelFolder
from harness.payload.probe import RunSpec
from harness.payload.probe_events import Event, RunLog
from harness.payload.store import Stored, ensure_on_phone
from harness.plan.matrix import PlannedCell
from harness.plan.model import Plan
from harness.runners.events import RunnerLog, parse_runner_output
from harness.runners.farm_runner import build_command, prompt_hash
from harness.store.runfolder import RunFolder
from harness.store.schema import AdbInfo, BundleInfo, CellConfig, CellRecord, ModelInfo

_log = logging.getLogger(__name__)

# A phone waits at most so long for others that share its processor.
TURN_TIMEOUT_S = 3600.0
CLEAN_UP_S = 60.0
Say = Callable[[str], None]


@dataclass(frozen=True)
class RunContext:
    """What all phones of a run have in common. It crosses process borders."""

    run_id: str
    run_dir: Path
    plan: Plan
    bundle: Bundle
    models: dict[str, ModelFolder]


def cell_config(cell: PlannedCell, plan: Plan) -> CellConfig:
    """Return everything that is asked of the engine in this cell."""
    return CellConfig(
        kind=plan.kind,
        backend=cell.backend,
        threads=cell.threads,
        precision=cell.precision,
        memory=cell.memory,
        engine=dict(cell.engine),
        prompt_hash=prompt_hash(plan),
        prompt_tokens=cell.prompt_tokens,
        generate_tokens=cell.generate_tokens,
        context_tokens=cell.context_tokens,
        warmups=plan.warmups,
        repeats=plan.repeats,
    )


def cell_id_of(phone_id: str, model: ModelFolder, bundle: Bundle, config: CellConfig) -> str:
    """Return the id of a cell on a phone: what is measured, never where it is plugged in or when."""
    return content_id(
        {
            "phone": phone_id,
            "model": model.folder.hash,
            "bundle": bundle.hash,
            "runner": bundle.manifest.runner,
            "config": config.model_dump(mode="json"),
        }
    )


@dataclass
class PhoneSession:
    """Runs cells on one phone. Never two at once."""

    phone: ConnectedPhone
    context: RunContext
    say: Say
    pushed_bytes: int = 0
    _stored: dict[str, Stored] = field(default_factory=dict)

    def run_cell(self, cell: PlannedCell) -> CellRecord:
        """Run one cell to its verdict and append its record.

        Raises:
            FarmError: the record could not be written; everything else ends in a record.
        """
        attempt = _Attempt(self, cell)
        try:
            result = attempt.run()
        except FarmError as error:
            _log.info("[%s] %s: %s", self.phone.name, cell.label, error)
            result = attempt.failed(error)
        except Exception as error:  # noqa: BLE001  our own bug costs one cell, not the night: it is recorded as ours
            _log.exception("[%s] %s", self.phone.name, cell.label)
            result = attempt.broken(error)
        RunFolder(self.context.run_dir).append(result)
        self.say(f"{cell.model} {cell.label}: {_in_short(result)}")
        return result

    def record_failure(self, cell: PlannedCell, error: FarmError) -> CellRecord:
        """Append the record of a cell that ended outside of :meth:`run_cell`, e.g. with its worker process."""
        result = _Attempt(self, cell).failed(error)
        RunFolder(self.context.run_dir).append(result)
        return result

    def bring(self, kind: str, payload: PayloadFolder, label: str) -> str:
        """Bring a payload to the phone, once per session, and return its folder there; see ``ensure_on_phone``."""
        key = f"{kind}/{payload.hash}"
        if key not in self._stored:
            self._stored[key] = ensure_on_phone(
                self.phone.transport, self.phone.probe, payload, kind=kind, label=label, say=self.say
            )
            self.pushed_bytes += self._stored[key].pushed_bytes
        return self._stored[key].path


def _in_short(record: CellRecord) -> str:
    if record.reason is not None:
        return f"{record.verdict.value}, {record.reason}"
    decode = record.metrics.decode_tps if record.metrics is not None else None
    return "ok" if decode is None else f"ok, {decode.median:.1f} tok/s decode"


class _Attempt:
    """One attempt of one cell: collects what is known, so that a failure at any point still makes a full record."""

    def __init__(self, session: PhoneSession, cell: PlannedCell) -> None:
        self.session = session
        self.cell = cell
        self.phone = session.phone
        self.context = session.context
        self.model = self.context.models[cell.model]
        self.config = cell_config(cell, self.context.plan)
        self.cell_id = cell_id_of(self.phone.identity.id, self.model, self.context.bundle, self.config)
        self.folder = RunFolder(self.context.run_dir)
        self.number = 1 + self.folder.attempts_of(self.cell_id)
        self.started = utc_now()
        self._clock = time.monotonic()
        self.raw: Path | None = None
        self.evidence: Evidence | None = None

    def run(self) -> CellRecord:
        """Run it; errors of phone and connection are raised."""
        refused = ruled_out(self.cell, self.phone.facts, self.context.bundle, self.model)
        if refused is not None:
            return self._record([refused])
        bundle_dir, model_dir = self._bring_payloads()
        say = self.session.say
        with _turn(self.phone.endpoint.contention_group, self.phone.name, say):
            cooled = wait_until_cool(self.phone.probe, self.context.plan.cool, say)
            if cooled.note:
                _log.info("[%s] %s: %s", self.phone.name, self.cell.label, cooled.note)
            say(f"running {self.cell.model} {self.cell.label}")
            run = self._run_on_phone(bundle_dir, model_dir)
        self.evidence = Evidence(
            cell=self.cell,
            plan=self.context.plan,
            run=run,
            told=parse_runner_output(run.stdout),
            weight_bytes=self.model.weight_bytes,
            ram_bytes=self.phone.facts.ram_bytes,
            started_hot=cooled.hot,
        )
        return self._record(judge(self.evidence))

    def failed(self, error: FarmError) -> CellRecord:
        """Return the record of an attempt that ended in ``error``."""
        return self._record([Objection(error.reason, str(error))])

    def broken(self, error: Exception) -> CellRecord:
        """Return the record of an attempt in which our own code failed, perhaps over this very evidence."""
        self.evidence = None
        full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
        reason = Reason.HOST_DISK_FULL if full else Reason.HARNESS_ERROR
        return self._record([Objection(reason, f"{type(error).__name__}: {error}")])

    def _bring_payloads(self) -> tuple[str, str]:
        session, bundle, model = self.session, self.context.bundle, self.model
        programs = bundle.payload(self.phone.facts.abis, session.say)
        return (
            session.bring("bundles", programs, f"bundle {bundle.manifest.name}"),
            session.bring("models", model.folder, f"model {model.name}"),
        )

    def _run_on_phone(self, bundle_dir: str, model_dir: str) -> RunLog:
        """Run the cell under the probe in a fresh work folder, which is removed afterwards."""
        transport = self.phone.transport
        work = f"{transport.base_dir}/work/{self.cell_id[:12]}-{self.number}-{secrets.token_hex(3)}"
        argv = build_command(self.context.bundle, bundle_dir, model_dir, work, self.cell, self.context.plan)
        self.raw = self.folder.raw_dir(self.cell_id, self.number)
        (self.raw / "command.json").write_text(json.dumps({"argv": argv, "cell": self.cell.label}, indent=1))
        deadline = Deadline(CLEAN_UP_S, "making the work folder", transport.name)
        transport.shell(["mkdir", "-p", work], deadline=deadline)
        progress = _Progress(self.session.say, self.cell, self.context.plan)
        try:
            spec = RunSpec(argv=argv, work_dir=work, deadline_s=self.context.plan.cell_timeout_s)
            with (self.raw / "events.jsonl").open("wb") as events:
                run = self.phone.probe.run(spec, on_event=progress, keep_raw=events)
        finally:
            self._remove(work)
        (self.raw / "stdout").write_bytes(run.stdout)
        (self.raw / "stderr").write_bytes(run.stderr)
        return run

    def _remove(self, work: str) -> None:
        """Remove the work folder. If that fails it costs nothing that was measured: the next run removes it."""
        transport = self.phone.transport
        try:
            deadline = Deadline(CLEAN_UP_S, "removing the work folder", transport.name)
            transport.shell(["rm", "-rf", work], deadline=deadline)
        except PhoneError as error:
            _log.warning("%s stays on the phone: %s", work, error)

    def _record(self, objections: list[Objection]) -> CellRecord:
        nulls = dict(make.ALWAYS_NULL)
        nulls.update(self.phone.nulls)
        told = self.evidence.told if self.evidence is not None else RunnerLog()
        sections: dict[str, Any] = {"backend": None, "metrics": None, "thermal": None, "output": None}
        if self.evidence is not None:
            sections["backend"] = make.backend_proof(self.evidence)
            sections["metrics"] = make.metrics_of(self.evidence, nulls)
            sections["thermal"] = make.thermal_of(self.evidence.run, self.phone.facts, nulls)
            sections["output"] = make.output_of(self.evidence, self.context.plan, nulls)
        decisive = objections[0] if objections else None
        for name, value in sections.items():
            if value is None:
                nulls[name] = "it never ran" if self.raw is None else "the run ended before it was known"
        if sections["backend"] is not None and sections["backend"].actual is None:
            nulls["actual"] = "the runner could not tell"
        if self.raw is None:
            nulls["raw"] = "nothing was run"
        return CellRecord(
            run_id=self.context.run_id,
            cell_id=self.cell_id,
            attempt=self.number,
            started=iso(self.started),
            elapsed_s=round(time.monotonic() - self._clock, 3),
            harness_version=harness.__version__,
            adb=self._adb(nulls),
            phone=self.phone.info,
            model=self._model(nulls),
            bundle=self._bundle(told, nulls),
            config=self.config,
            verdict=decisive.reason.verdict if decisive else Verdict.OK,
            reason=decisive.reason.code if decisive else None,
            fault=Fault(decisive.reason.fault) if decisive else None,
            detail=decisive.detail if decisive else "",
            samples=make.samples_of(self.evidence) if self.evidence is not None else (),
            findings=make.findings_of(objections),
            nulls=nulls,
            raw=self.folder.relative(self.raw) if self.raw is not None else None,
            **sections,
        )

    def _adb(self, nulls: dict[str, str]) -> AdbInfo:
        try:
            server = self.phone.transport.server
            missing = "this phone is not on adb"
        except FarmError as error:
            server, missing = None, str(error)
        if server is None:
            nulls["server"] = nulls["version"] = missing
        return AdbInfo(server=server[0] if server else None, version=server[1] if server else None)

    def _model(self, nulls: dict[str, str]) -> ModelInfo:
        if self.model.quant_bits is None:
            nulls["quant_bits"] = "the model folder does not tell"
        return ModelInfo(
            name=self.model.name,
            hash=self.model.folder.hash,
            weight_bytes=self.model.weight_bytes,
            quant_bits=self.model.quant_bits,
        )

    def _bundle(self, told: RunnerLog, nulls: dict[str, str]) -> BundleInfo:
        manifest = self.context.bundle.manifest
        version = told.hello.engine_version if told.hello is not None else None
        if version is None:
            nulls["engine_version"] = "the runner told no version"
        return BundleInfo(
            name=manifest.name,
            hash=self.context.bundle.hash,
            engine=manifest.engine,
            engine_version=version,
            runner=manifest.runner,
        )


class _Progress:
    """Turns events into the live display: how many generations are done."""

    def __init__(self, say: Say, cell: PlannedCell, plan: Plan) -> None:
        self._say = say
        self._what = f"{cell.model} {cell.label}"
        self._total = plan.warmups + plan.repeats + len(plan.ask)
        self._done = 0

    def __call__(self, event: Event) -> None:
        data = getattr(event, "data", None)
        if isinstance(data, bytes) and b'"generation"' in data:
            self._done += data.count(b'"generation"')
            self._say(f"running {self._what}: generation {min(self._done, self._total)} of {self._total}")


class _turn:  # noqa: N801  used as a context manager, like contextlib's
    """Holds the turn of a group of phones that share processing power: two at once would measure each other."""

    def __init__(self, group: str, phone: str, say: Say) -> None:
        self._lock = FileLock(cache_dir("locks") / f"measure-{group}.lock") if group else None
        self._phone = phone
        self._say = say

    def __enter__(self) -> None:
        if self._lock is None:
            return
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            self._say("waiting for its turn: another phone that shares its processor is measuring")
            try:
                self._lock.acquire(timeout=TURN_TIMEOUT_S, poll_interval=0.02)
            except Timeout:
                raise FarmError(
                    f"{self._phone}: others that share its processor measured for {TURN_TIMEOUT_S:g} s",
                    remedy="run fewer phones of this kind at once",
                    reason=Reason.BUSY,
                ) from None

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            self._lock.release()
