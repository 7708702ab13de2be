"""One attempt of one cell, from the first look at the phone to its objections.

Until the run on the phone has begun everything may be done again: the ladder brings a lost phone back, and the attempt
starts over. From then on the run itself survives what it can (:mod:`harness.bench.supervise`), and what it cannot
decides.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from harness.bench.account import Account
from harness.bench.cold import cache_grew, cold_order, cold_spec, read_cold, start_cold, wants_cold_start
from harness.bench.cool import wait_until_cool
from harness.bench.crash import Ran
from harness.bench.evidence import ColdStart, Evidence, Objection
from harness.bench.limits import Limits, limits_of
from harness.bench.phone_log import PhoneLog, engine_lines, worth_keeping
from harness.bench.progress import Progress
from harness.bench.recovery import worth_a_climb
from harness.bench.reference import NOT_COMPARED, Found, find_reference
from harness.bench.roofline import decode_is_below_the_roof
from harness.bench.said import write_answers
from harness.bench.seat import Session
from harness.bench.steps import ended_well, make_step_dir
from harness.bench.supervise import Supervised
from harness.bench.support import ruled_out
from harness.bench.sustained import SustainedProgress, interval_ms
from harness.bench.target import target_of
from harness.bench.tensor_attempt import bring_outputs, held_to_reference, keep_outputs, with_tensors
from harness.bench.tensor_pull import Pulled
from harness.bench.tensor_record import tensor_findings
from harness.bench.tensor_rules import latency_is_above_the_floor
from harness.bench.text_rules import text_findings
from harness.bench.timeline import write_tokens
from harness.bench.turn import turn
from harness.bench.validity import judge
from harness.core.deadline import Deadline
from harness.core.errors import FarmError, PhoneError, ProbeError
from harness.core.log import phone_logger
from harness.core.reasons import Reason
from harness.core.transport import checked
from harness.payload.probe import RunSpec
from harness.payload.probe_events import Event, RunLog
from harness.phone.battery import Battery
from harness.phone.thermal import Meaning, trip_limits
from harness.phone.thermalservice import NOT_ASKED, Status
from harness.plan.golden import golden_allowance_s
from harness.runners.base import MAIN, Order, Step, step_dir
from harness.runners.prompt_text import prompt_text
from harness.runners.registry import runner_of

CLEAN_UP_S = 60.0
# The folder above it goes, too, when nothing else lies there: then whoever tidies up next has nothing to look for.
_REMOVE = 'rm -rf "$1"; rmdir "${1%/*}" 2>/dev/null'


@dataclass(frozen=True)
class _After:
    """What a phone told right after a run; its log is ``None`` where it has none."""

    battery: Battery | None
    status: Status
    log: PhoneLog | None


class Attempt:
    """Runs one cell once."""

    def __init__(self, session: Session, account: Account) -> None:
        self._session = session
        self._account = account
        self._phone = session.phone
        self._plan = session.context.plan
        self._begun = False
        self._stood_still = False
        self._cold: ColdStart | None = None
        self._runs: dict[str, RunLog] = {}
        self._pulled: Pulled | None = None

    def run(self) -> list[Objection]:
        """Run it; what it left is in the account.

        Raises:
            FarmError: it came to no verdict of its own: the error's reason is the verdict.
        """
        account, session = self._account, self._session
        refused = ruled_out(account.cell, self._plan, self._phone.facts, account.bundle, account.model)
        if refused is not None:
            return [refused]
        tries = self._plan.recovery.tries
        while True:
            try:
                return self._once()
            except FarmError as error:
                if error.reason is Reason.PAYLOAD_CORRUPT:
                    session.ladder.climb(error)  # which finds out whether it is the connection that loses bytes
                lapsed = isinstance(error, ProbeError) and error.reason is Reason.LEASE_LOST
                if self._begun or not tries or not (lapsed or worth_a_climb(error)):
                    raise
                tries -= 1
                if not lapsed:  # else the phone is there, and its lease is asked for again
                    session.came_back(session.ladder.climb(error), account)

    def _once(self) -> list[Objection]:
        account, session = self._account, self._session
        session.make_ready(account)
        order = self._order()
        with turn(self._phone.endpoint.contention_group, self._phone.name, session.say):
            cooled = wait_until_cool(self._phone.probe, session.cool, session.say)
            if cooled.note:
                account.note("cool_down", cooled.note)
            order = with_tensors(order, self._plan, session.say)
            account.ran = Ran(order)
            facts = self._phone.facts
            limits = limits_of(account.cell, account.model, facts, session.bandwidth())
            status_before = self._ask_before()
            self._run_on_phone(order, limits)
            run = self._runs[MAIN]
            after = self._leave(order)
            evidence = Evidence(
                cell=account.cell,
                plan=self._plan,
                run=run,
                told=runner_of(order.bundle).read(order, self._runs),
                weight_bytes=account.model.weight_bytes,
                ram_bytes=facts.ram_bytes,
                started_hot=cooled.hot,
                stood_still=self._stood_still,
                battery_before=session.battery,
                battery_after=after.battery,
                cold=self._cold,
                limits=limits,
                core_max_khz=facts.core_max_khz,
                status_before=status_before,
                status_after=after.status,
                tensors=held_to_reference(order, self._pulled, self._plan),
                multiplied_weights=order.tensors.multiplied if order.tensors is not None else 0,
                beside=tuple(one for name, one in self._runs.items() if name != MAIN),
            )
            rule = latency_is_above_the_floor if account.cell.tensor else decode_is_below_the_roof
            if any(rule(evidence)):  # or the roof was measured too low
                limits = replace(limits, bandwidth=session.bandwidth(again=True))
            if after.log is not None:
                evidence = self._with_phone_log(evidence, after.log, order)
            # Still in its turn: this computer's processor may be the one that other phones of the group measure on.
            found = self._reference(order) if order.tensors is None else Found(why="a tensor cell has no text")
        account.evidence = replace(evidence, limits=limits, reference=found.reference, reference_why=found.why)
        account.notes += [*found.findings, *text_findings(account.evidence), *tensor_findings(account.evidence)]
        write_answers(account.evidence, self._plan, account.raw_dir() / "answers.jsonl")
        self._keep_timeline(account.evidence)
        grew = cache_grew(account.evidence)
        if grew:
            account.note("tuning_cache_grew", grew, warning=True)
        objections = judge(account.evidence)
        held = account.evidence.tensors
        if held is not None and {Reason.OUTPUT_WRONG, Reason.OUTPUT_DEGENERATE} & {one.reason for one in objections}:
            keep_outputs(held, account.raw_dir() / "outputs")
        return objections

    def _keep_timeline(self, evidence: Evidence) -> None:
        """Keep every token's moment, and what was noticed about the phone's speed."""
        account = self._account
        if evidence.timeline.tokens:
            write_tokens(account.raw_dir() / "tokens.csv", evidence.timeline)
        for note in evidence.throttling.notes:
            account.note("speed", note)

    def _order(self) -> Order:
        """Bring bundle and model to the phone and return what is to be run there."""
        session, account, transport = self._session, self._account, self._phone.transport
        bundle, model, cell = account.bundle, account.model, account.cell
        prompt = prompt_text(model, cell.prompt_tokens) if runner_of(bundle).wants_prompt_text else None
        programs = bundle.payload(target_of(self._phone.facts), session.say)
        return Order(
            bundle=bundle,
            bundle_dir=session.bring("bundles", programs, f"bundle {bundle.manifest.name}"),
            model=model,
            model_dir=session.bring("models", model.folder, f"model {model.name}"),
            work_dir=f"{transport.base_dir}/work/{account.cell_id[:12]}-{account.number}-{secrets.token_hex(3)}",
            cell=cell,
            plan=self._plan,
            files=frozenset(file.path for file in programs.files),
            prompt=prompt,
        )

    def _bring_outputs(self, order: Order) -> None:
        """Bring what the runs wrote, where they ended well and there is something to bring."""
        if order.tensors is None or not all(ended_well(run) for run in self._runs.values()):
            return
        account, session = self._account, self._session
        session.say(f"bringing the outputs of {account.cell.model} {account.cell.label}")

        def come_back(error: PhoneError) -> None:
            session.came_back(session.ladder.climb(error), account)

        told = runner_of(order.bundle).read(order, self._runs)
        self._pulled = bring_outputs(order, told, self._phone.transport, come_back)

    def _reference(self, order: Order) -> Found:
        """Return what the same model says to the same prompt on this computer."""
        context, cell, say = self._session.context, self._account.cell, self._session.say
        if not ended_well(self._runs[MAIN]):
            return NOT_COMPARED
        if order.prompt is None:
            return find_reference(context, cell, say)
        return find_reference(context, cell, say, prompt_text=order.prompt.text)

    def _run_on_phone(self, order: Order, limits: Limits) -> None:
        """Run the cell under the probe in a fresh work folder.

        The first step is measured. Those after it are run only where it ended well.
        """
        account, session = self._account, self._session
        first, *others = runner_of(order.bundle).steps(order)
        spec = self._spec(order, first, limits)
        self._cold = self._start_cold(spec, order)
        make_step_dir(self._phone.transport, order, first)  # after the cold start, which had files of its own there
        session.say(f"running {account.cell.model} {account.cell.label}")
        self._follow(order, first, spec)
        for step in others:
            if not ended_well(self._runs[MAIN]):
                break
            make_step_dir(self._phone.transport, order, step)
            session.say(f"running {account.cell.model} {account.cell.label}: {step.name}")
            self._follow(order, step, self._spec(order, step, limits))
        self._bring_outputs(order)

    def _spec(self, order: Order, step: Step, limits: Limits) -> RunSpec:
        """Return the supervised run of a step."""
        lease, zones, trip = self._phone.lease, self._phone.facts.zones, self._plan.trip
        limits_c: dict[Meaning, float] = {"skin": trip.skin_c, "battery": trip.battery_c}
        return RunSpec(
            argv=step.argv,
            work_dir=step_dir(order.work_dir, step),
            env=step.env or None,
            deadline_s=self._plan.cell_timeout_s + golden_allowance_s(order.cell, self._plan),
            interval_ms=interval_ms(self._plan.duration_s),
            silence_s=self._plan.silence_s if step.speaks else None,
            trips=trip_limits([zone.type for zone in zones], [zone.milli_c for zone in zones], limits_c),
            lease=(lease.file, lease.id) if lease is not None else None,
            cpus=limits.cpus,
        )

    def _follow(self, order: Order, step: Step, spec: RunSpec) -> None:
        """Run one step to its end, and keep what it left."""
        account, session = self._account, self._session
        raw = account.raw_dir() if step.name == MAIN else account.raw_dir() / step.name
        raw.mkdir(exist_ok=True)
        supervised = Supervised(self._phone.transport, self._phone.probe, session.ladder, spec)
        (raw / "command.json").write_text(json.dumps({"argv": step.argv, "cell": account.cell.label}, indent=1))
        over = False
        account.ran.steps.append(step)
        try:
            with (raw / "events.jsonl").open("wb") as events:
                self._runs[step.name] = supervised.run(on_event=self._watching(), keep_raw=events)
            over = True
        finally:
            self._begun = self._begun or supervised.begun
            self._stood_still = self._stood_still or supervised.woken
            for recovered in supervised.recoveries:
                session.came_back(recovered, account)
            # If it is not over, whoever sees the phone next finds the run by its folder, and ends it.
            if supervised.end() and not over:
                self._remove(order.work_dir)
            (raw / "stdout").write_bytes(supervised.log.stdout)
            (raw / "stderr").write_bytes(supervised.log.stderr)

    def _start_cold(self, spec: RunSpec, order: Order) -> ColdStart | None:
        """Use the model for the first time, where this cell begins so."""
        account, session = self._account, self._session
        if not wants_cold_start(account.cell, self._plan):
            return None
        runner = runner_of(order.bundle)
        if runner.no_cold_start:
            return ColdStart(why_not=runner.no_cold_start)
        session.say(f"starting {account.cell.model} cold")
        once = cold_order(order)
        step = runner.steps(once)[0]
        make_step_dir(self._phone.transport, once, step)
        cold = cold_spec(spec, step.argv)
        make = ["mkdir", "-p", cold.work_dir]
        deadline = Deadline(CLEAN_UP_S, "making the work folder", self._phone.transport.name)
        checked(self._phone.transport.shell(make, deadline=deadline), self._phone.transport.name, make)
        return start_cold(self._phone.probe, cold, once, self._phone.name)

    def _watching(self) -> Callable[[Event], None]:
        of_kind = Progress if self._plan.duration_s is None else SustainedProgress
        progress = of_kind(self._session.say, self._account.cell, self._plan)

        def on_event(event: Event) -> None:
            progress(event)
            self._session.watch(event)

        return on_event

    def _ask_before(self) -> Status:
        """Ask what is to be known right before the run, all at once; return the thermal status.

        Battery and status are asked where there is an Android whose battery was read.
        """
        log = self._session.log
        with ThreadPoolExecutor(thread_name_prefix=self._phone.name) as pool:
            begun = pool.submit(log.begin) if log is not None else None
            status = NOT_ASKED if self._session.battery is None else self._session.vitals.status_before()
            if begun is not None:
                begun.result()
        return status

    def _leave(self, order: Order) -> _After:
        """Ask what is to be known right after the run and remove its work folder, all at once."""
        log, vitals, asked = self._session.log, self._session.vitals, self._session.battery is not None
        if log is not None:
            self._session.say("reading the phone's log")
        with ThreadPoolExecutor(thread_name_prefix=self._phone.name) as pool:
            said = pool.submit(log.read, sign=not ended_well(self._runs[MAIN])) if log is not None else None
            status = pool.submit(vitals.status_after) if asked else None
            removed = pool.submit(self._remove, order.work_dir)
            battery = vitals.battery_after() if asked else None
            removed.result()
            return _After(battery, status.result() if status else NOT_ASKED, said.result() if said else None)

    def _with_phone_log(self, evidence: Evidence, log: PhoneLog, order: Order) -> Evidence:
        """Add the phone's log over the time of the run. Of one that ended well only what speaks of it is kept."""
        well = ended_well(evidence.run)
        self._account.ran.log = log
        pids = {name: run.start.pid for name, run in self._runs.items() if run.start is not None and run.start.pid}
        kept = worth_keeping(log.lines, {*evidence.pids, *pids.values()}) if well else log.lines
        if kept and self._account.raw is not None:
            (self._account.raw / "logcat").write_bytes(kept)
        said = {name: lines for name, pid in pids.items() if (lines := engine_lines(log.lines, {pid}))}
        told = runner_of(order.bundle).read(order, self._runs, said) if said else evidence.told
        cold = evidence.cold
        if cold is not None and cold.run is not None and cold.run.start is not None and cold.run.start.pid is not None:
            written = engine_lines(log.lines, {cold.run.start.pid})
            cold = read_cold(cold_order(order), cold.run, cold.why_warm, written) if written else cold
        return replace(evidence, told=told, cold=cold, phone_log=log.lines, phone_log_gap=log.gap)

    def _remove(self, work: str) -> None:
        """Remove the work folder. If that fails it costs nothing that was measured: whoever has the phone next does."""
        transport = self._phone.transport
        try:
            deadline = Deadline(CLEAN_UP_S, "removing the work folder", transport.name)
            transport.shell(["sh", "-c", _REMOVE, "sh", work], deadline=deadline)
        except PhoneError as error:
            phone_logger(__name__, transport.name).warning("%s stays on the phone: %s", work, error)
