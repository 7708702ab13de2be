"""A phone's session on a phone that exists only here: every cell ends in exactly one record, whatever happens."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest
from filelock import FileLock, Timeout

from harness.bench import attempt
from harness.bench import session as bench_session
from harness.bench.account import Account
from harness.bench.context import RunContext, cell_config, cell_id_of
from harness.bench.cool import Cooled
from harness.bench.phone import ConnectedPhone
from harness.bench.reference import Found
from harness.bench.session import PhoneSession
from harness.core.errors import AdbFailedError, FarmError, PhoneLostError, ProbeError
from harness.core.ids import content_id, utc_now
from harness.core.provider import Endpoint
from harness.core.reasons import Reason, Verdict
from harness.core.transport import ShellResult
from harness.payload.bundle import Bundle, BundleManifest
from harness.payload.folder import PayloadFile, PayloadFolder
from harness.payload.models import ModelFolder
from harness.payload.store import Stored
from harness.phone.health import HealthStore
from harness.phone.identity import Identity
from harness.phone.tier import Placement
from harness.plan.matrix import cells_of
from harness.plan.model import Cool
from harness.runners.base import PromptText
from harness.store.runfolder import RunFolder
from harness.store.schema import CellConfig, CellRecord, Finding

PHONE_ID = "5c0ffee0-0000-4000-8000-000000000001"


def bundle(sha256: str = "b", runner: Any = "farm_runner") -> Bundle:
    manifest = BundleManifest(name="toy", runner=runner, backends=["cpu", "opencl"], program="run", files=["run"])
    return Bundle(manifest, PayloadFolder(Path(), (PayloadFile("run", 1, sha256, True),)))


def model(sha256: str = "m", bits: int | None = 4) -> ModelFolder:
    return ModelFolder("toy", PayloadFolder(Path(), (PayloadFile("llm.mnn", 1, sha256),)), 80_000_000, bits)


class FakeTransport:
    name, serial, base_dir = "toy-1", "SERIAL", "/data/local/tmp/mnn-farm"
    server: tuple[str, int] | None = ("127.0.0.1:6000", 41)

    def __init__(self) -> None:
        self.commands: list[list[str]] = []
        self.pushed: dict[str, bytes] = {}
        self.fails_on: str | None = None

    def shell(self, argv: Any, **_: object) -> ShellResult:
        self.commands.append(list(argv))
        if self.fails_on is not None and argv[0] == self.fails_on:
            raise PhoneLostError(self.name, "gone")
        if argv[0] == "sh" and "printf" in argv[2]:  # the ladder's handshake
            return ShellResult(7, argv[3].encode(), b"")
        return ShellResult(0, b"", b"")

    def push(self, items: Any, **_: object) -> None:
        self.pushed |= {item.remote: item.local.read_bytes() for item in items}

    def state(self) -> str:
        return "device"


class FakeProbe:
    """Has every payload already; a run gives what `run` makes."""

    path = "/probe"

    def __init__(self, run: Callable[[], Any]) -> None:
        self._run = run
        self.specs: list[Any] = []
        self.stopped: list[str] = []
        self.stops = True
        self.measured = 0
        self.trusted: list[tuple[str, bool]] = []
        self.bandwidths: list[float] = []

    def hash_tree(self, folder: str, _: float, *, stamp: str, trust_s: int) -> dict[str, tuple[int, str]]:
        self.trusted.append((folder.split("/")[-2], trust_s > 0))
        return {"llm.mnn": (1, "m")} if "/models/" in folder else {"run": (1, "b")}

    def start(self, spec: Any) -> None:
        self.specs.append(spec)

    def attach(self, *_: object, keep_raw: Any, **__: object) -> Any:
        if not keep_raw.tell():
            keep_raw.write(b'{"ev":"start"}\n')
        return self._run()

    def bandwidth(self, threads: Any, **_: object) -> dict[int, float]:
        self.measured += 1
        if self.bandwidths:
            return dict.fromkeys(threads, self.bandwidths.pop(0))
        raise ProbeError("toy-1", "no memory to read")

    def stop(self, events_dir: str) -> None:
        self.stopped.append(events_dir)
        if not self.stops:
            raise PhoneLostError("toy-1", "gone")


@pytest.fixture
def session(make: ModuleType, tmp_path: Path) -> Callable[..., Any]:
    """A session; `run` is what the probe returns or raises."""

    def build(run: Any, *, facts: Any = None, **plan: Any) -> Any:
        def go() -> Any:
            if isinstance(run, Exception):
                raise run
            return run

        chosen = make.plan(**plan)
        transport, probe = FakeTransport(), FakeProbe(go)
        phone = ConnectedPhone(
            endpoint=Endpoint("toy-1", transport_serial="SERIAL"),
            transport=cast("Any", transport),
            probe=cast("Any", probe),
            facts=replace(facts or make.facts(), sdk=None, android_release=None),
            identity=Identity(PHONE_ID),
            placement=Placement("mid", "rule 2 (mid) fits", 2),
        )
        folder = RunFolder.create(tmp_path / "run")
        context = RunContext("r1", folder.path, chosen, bundle(), {"toy": model()})
        made = PhoneSession(phone, context, lambda _: None)
        return SimpleNamespace(
            run=lambda: made.run_cell(cells_of(chosen)[0]),
            session=made,
            folder=folder,
            transport=transport,
            probe=probe,
            cell=cells_of(chosen)[0],
        )

    return build


def only_record(folder: RunFolder) -> CellRecord:
    (record,) = folder.records()
    return record


def test_an_honest_cell_ends_in_an_ok_record(make: ModuleType, session: Callable[..., Any]) -> None:
    here = session(make.run(make.lines(make.events()), b"chatter\n"))
    record = here.run()
    assert record == only_record(here.folder)
    assert (record.verdict.value, record.reason, record.detail) == ("ok", None, "")
    assert (record.backend.actual, record.metrics.decode_tps.n, record.output.golden) == ("cpu", 2, "1/1")
    assert (record.phone.id, record.phone.tier, record.adb.version) == (
        "5c0ffee0-0000-4000-8000-000000000001",
        "mid",
        41,
    )
    assert (record.bundle.engine_version, record.attempt, record.run_id) == ("3.6.1", 1, "r1")


@pytest.mark.parametrize("pinned", [True, False])
def test_the_record_tells_whether_the_model_was_held_against_its_pin(
    make: ModuleType, session: Callable[..., Any], pinned: bool
) -> None:
    here = session(make.run(make.lines(make.events())))
    here.session.context.models["toy"] = replace(model(), pinned=pinned)
    assert here.run().model.pinned is pinned


@pytest.mark.parametrize(("version", "codes"), [("9.0.0", ["engine_older_than_model"]), ("3.6.1", []), (None, [])])
def test_the_record_says_that_the_engine_is_older_than_the_model(
    make: ModuleType, session: Callable[..., Any], version: str | None, codes: list[str]
) -> None:
    here = session(make.run(make.lines(make.events())))  # whose engine is 3.6.1
    here.session.context.models["toy"] = replace(model(), engine_version=version)
    record = here.run()
    assert [found.code for found in record.findings if found.severity == "warning"] == codes
    assert record.verdict is Verdict.OK


def test_the_raw_output_lies_where_the_record_says(make: ModuleType, session: Callable[..., Any]) -> None:
    here = session(make.run(make.lines(make.events()), b"chatter\n"))
    raw = here.folder.path / here.run().raw
    assert (raw / "stderr").read_bytes() == b"chatter\n"
    assert (raw / "stdout").read_bytes() == make.lines(make.events())
    assert (raw / "events.jsonl").read_bytes() == b'{"ev":"start"}\n'
    assert json.loads((raw / "command.json").read_text())["argv"] == list(here.probe.specs[0].argv)


def test_what_a_session_uses_is_never_removed_to_make_room(
    make: ModuleType, session: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, set[str]]] = []

    def ensure(_: object, __: object, ___: object, *, kind: str, in_use: set[str], **____: object) -> Stored:
        told.append((kind, in_use))
        return Stored(f"/there/{kind}", 0)

    monkeypatch.setattr(bench_session, "ensure_on_phone", ensure)
    session(make.run(make.lines(make.events()), b"")).run()
    models = {model().folder.hash}
    assert told == [("bundles", models), ("models", models | {bundle().folder.hash})]


def test_each_attempt_has_a_number_and_a_raw_folder_of_its_own(make: ModuleType, session: Callable[..., Any]) -> None:
    here = session(make.run(make.lines(make.events())))
    first, second = here.run(), here.run()
    assert (first.attempt, second.attempt) == (1, 2)
    assert (first.cell_id, first.raw) == (second.cell_id, second.raw.replace("/2/", "/1/"))


def test_a_refused_figure_is_kept_and_never_ok(make: ModuleType, session: Callable[..., Any]) -> None:
    here = session(make.run(make.lines(make.events()), b"LLM init error\n", boot_ms=9000.0))
    record = here.run()
    assert (record.verdict.value, record.reason, record.fault.value) == ("failed", "engine_error", "product")
    assert record.metrics.decode_tps.n == 2
    assert [found.code for found in record.findings if found.severity == "error"] == ["engine_error", "suspended"]


def test_after_what_a_rotten_file_may_do_every_byte_is_looked_at_once(
    make: ModuleType, session: Callable[..., Any]
) -> None:
    here = session(make.run(make.lines(make.events()), b"LLM init error\n"))
    assert {here.run().reason for _ in range(3)} == {"engine_error"}
    trusted = [("bundles", True), ("models", True)]
    assert here.probe.trusted == [*trusted, ("bundles", False), ("models", False)]


def test_after_what_the_phone_or_the_plan_is_to_blame_for_nothing_is_looked_at_again(
    make: ModuleType, session: Callable[..., Any]
) -> None:
    here = session(make.run(make.lines(make.events()), boot_ms=9000.0))
    assert {here.run().reason for _ in range(2)} == {"suspended"}
    assert here.probe.trusted == [("bundles", True), ("models", True)]


def test_what_is_ruled_out_is_recorded_without_touching_the_phone(
    make: ModuleType, session: Callable[..., Any]
) -> None:
    here = session(make.run(), backends=["opencl"])
    record = here.run()
    assert (record.verdict.value, record.reason) == ("unsupported", "backend_missing_on_phone")
    assert (record.raw, record.nulls["raw"], record.nulls["metrics"]) == (None, "nothing was run", "it never ran")
    assert here.transport.commands == []


def test_a_phone_lost_in_a_run_is_recorded_as_lost(session: Callable[..., Any]) -> None:
    here = session(PhoneLostError("toy-1", "the cable was pulled"))
    here.transport.fails_on = "rm"
    record = here.run()
    assert (record.reason, record.fault.value) == ("device_lost", "infra")
    assert record.detail == "toy-1: the cable was pulled"
    assert record.nulls["metrics"] == "the run ended before it was known"
    assert record.raw is not None


def test_a_finished_run_survives_a_phone_lost_while_cleaning_up(make: ModuleType, session: Callable[..., Any]) -> None:
    here = session(make.run(make.lines(make.events())))
    here.transport.fails_on = "rm"
    assert here.run().verdict.value == "ok"


def test_the_cause_that_the_logs_show_stands_behind_what_decided(make: ModuleType, session: Callable[..., Any]) -> None:
    said = b'CANNOT LINK EXECUTABLE "./x": library "libc++_shared.so" not found: needed by main executable\n'
    here = session(make.run(b"", said, exit_code=1))
    record = here.run()
    assert record.reason == "link_error"
    assert record.findings[0].code == "link_error"
    [cause] = [finding for finding in record.findings if finding.cause]
    assert (cause.code, cause.severity) == ("missing_shared_library", "info")


def test_a_failure_leaves_a_crash_bundle(make: ModuleType, session: Callable[..., Any]) -> None:
    here = session(make.run(b"", b"segfault\n", exit_code=None, signal=11))
    record = here.run()
    told = json.loads((here.folder.path / record.raw / "crash" / "crash.json").read_bytes())
    assert (told["reason"], told["attempt"], told["cell_id"]) == ("crash", 1, record.cell_id)
    assert {"what": "dmesg", "why": "this is no Android phone"} in told["missing"]


def test_an_ok_cell_leaves_no_crash_bundle(make: ModuleType, session: Callable[..., Any]) -> None:
    here = session(make.run(make.lines(make.events())))
    assert not (here.folder.path / here.run().raw / "crash").exists()


@pytest.mark.parametrize("broken", ["collect", "write"])
def test_our_own_bug_in_the_bundle_changes_no_verdict(
    make: ModuleType, session: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise KeyError("bug")

    if broken == "collect":
        monkeypatch.setattr("harness.bench.crash.collect", fails)
    else:
        monkeypatch.setattr("harness.bench.crash.Crash.write", fails)
    assert session(make.run(b"", b"", exit_code=None, signal=11)).run().reason == "crash"


def test_the_work_folder_is_fresh_and_removed_even_after_a_failure(session: Callable[..., Any]) -> None:
    here = session(ProbeError("toy-1", "what came is no event"))
    assert here.run().reason == "harness_error"
    commands = here.transport.commands
    made, *_, removed = [argv for argv in commands if argv[0] == "mkdir" or "rm -rf" in " ".join(argv)]
    assert made[:2] == ["mkdir", "-p"]
    assert (removed[2].partition(";")[0], removed[-1]) == ('rm -rf "$1"', made[2])
    assert made[2] == here.probe.specs[0].work_dir
    assert made[2].startswith("/data/local/tmp/mnn-farm/work/")
    assert here.probe.stopped == [f"{made[2]}/probe"]


def test_the_work_folder_of_a_run_that_could_not_be_ended_stays_so_that_it_is_found(
    session: Callable[..., Any],
) -> None:
    here = session(OSError(errno.ENOSPC, "No space left on device"))
    here.probe.stops = False
    assert here.run().reason == "host_disk_full"
    assert [argv[0] for argv in here.transport.commands if argv[0] in ("mkdir", "rm")] == ["mkdir"]


def test_the_folder_of_a_run_that_could_not_be_ended_stays_so_that_it_is_found(session: Callable[..., Any]) -> None:
    here = session(PhoneLostError("toy-1", "gone"))

    def lost(_: str) -> None:
        raise PhoneLostError("toy-1", "gone")

    here.probe.stop = lost
    assert here.run().reason == "device_lost"
    assert "rm" not in [argv[0] for argv in here.transport.commands]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (KeyError("bug"), "harness_error"),
        (OSError(errno.EIO, "Input/output error"), "harness_error"),
    ],
)
def test_a_bug_of_ours_costs_one_cell_and_is_recorded_as_ours(
    session: Callable[..., Any], error: Exception, reason: str
) -> None:
    here = session(error)
    record = here.run()
    assert record == only_record(here.folder)
    assert record.reason == reason
    assert type(error).__name__ in record.detail


def test_what_the_disk_of_this_computer_does_not_take_makes_room_for_the_record(session: Callable[..., Any]) -> None:
    here = session(OSError(errno.ENOSPC, "No space left on device"))
    record = here.run()
    assert record == only_record(here.folder)
    assert (record.reason, record.raw) == ("host_disk_full", None)
    assert record.detail == f"what the phone told could not be kept below {here.folder.path} (No space left on device)"
    assert [path for path in here.folder.path.rglob("*") if path.name == "events.jsonl"] == []


def test_evidence_that_breaks_our_own_code_still_makes_a_record(
    make: ModuleType, session: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ValueError("this evidence is poison")

    monkeypatch.setattr("harness.bench.record.metrics_of", broken)
    here = session(make.run(make.lines(make.events())))
    record = here.run()
    assert record == only_record(here.folder)
    assert (record.reason, record.detail) == ("harness_error", "ValueError: this evidence is poison")
    assert record.raw is not None


@pytest.mark.parametrize(
    "number",
    [float("nan"), float("inf"), 0, -1, 1e-320, 1e308, 10**400],
    ids=lambda n: f"{n:.0e}" if isinstance(n, float) else f"{len(str(n))} digits",
)
@pytest.mark.parametrize(
    ("place", "field"),
    [
        (1, "load_ms"),
        (3, "prefill_ms"),
        (3, "ttft_ms"),
        (3, "token_ms"),
        (3, "prompt_tokens"),
        (3, "generated_tokens"),
        (3, "index"),
        (3, "engine_prefill_ms"),
        (3, "token_ids"),
        (2, "ttft_ms"),
    ],
)
def test_no_number_of_a_runner_costs_the_record_or_becomes_ok(
    make: ModuleType, session: Callable[..., Any], place: int, field: str, number: float
) -> None:
    told = make.events()
    told[place][field] = [number] * 31 if field == "token_ms" else [number] if field == "token_ids" else number
    harmless = isinstance(number, int) if field == "index" else field == "engine_prefill_ms" and number != 10**400
    here = session(make.run(make.lines(told)))
    record = here.run()
    assert record == only_record(here.folder)
    assert (record.verdict.value == "ok") == harmless
    assert record.reason != "harness_error"


def test_texts_that_are_no_unicode_are_kept_as_far_as_they_go(make: ModuleType, session: Callable[..., Any]) -> None:
    stdout = make.lines(make.events()).replace(b"Lima.", rb"Lima \ud800!").replace(b"a session", b"\\udc80 session")
    zone = "cpu\udcff"
    here = session(make.run(stdout, b"\xff\xfe\n", zones=(zone,)), facts=make.facts(model="Toy\udc80"))
    record = here.run()
    assert record.verdict.value == "ok"
    assert record == only_record(here.folder)
    assert (record.output.text, record.phone.model, record.thermal.zone) == ("Lima \ufffd!", "Toy\ufffd", "cpu\ufffd")


def test_a_phone_that_is_on_no_adb_server_says_so(make: ModuleType, session: Callable[..., Any]) -> None:
    here = session(make.run(make.lines(make.events())))
    here.transport.server = None
    record = here.run()
    assert (record.adb.server, record.nulls["server"]) == (None, "this phone is not on adb")


def test_a_cell_whose_worker_died_is_recorded_too(make: ModuleType, session: Callable[..., Any]) -> None:
    here = session(make.run())
    record = here.session.record_failure(here.cell, FarmError("worker gone", reason=Reason.HARNESS_ERROR))
    assert (only_record(here.folder), record.reason, record.detail) == (record, "harness_error", "worker gone")
    assert record.raw is None


def test_a_cell_that_a_dead_worker_had_begun_names_what_it_left(make: ModuleType, session: Callable[..., Any]) -> None:
    here = session(make.run())
    dead = Account(here.session.phone, here.session.context, here.cell)
    left = dead.raw_dir()
    error = FarmError("worker gone", reason=Reason.HARNESS_ERROR)
    assert here.session.record_failure(here.cell, error, begun=True).raw == here.folder.relative(left)


def test_after_a_run_that_was_ended_for_heat_the_phone_rests_and_then_goes_on_as_planned(
    make: ModuleType, session: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    gates: list[Any] = []

    def wait(_: object, cool: Any, __: object) -> Cooled:
        gates.append(cool)
        return Cooled()

    monkeypatch.setattr("harness.bench.attempt.wait_until_cool", wait)
    hot = make.run(b"", exit_code=None, signal=15, why="trip")
    here = session(hot, trip={"again_below_c": 39.0, "rest_timeout_s": 60.0})
    assert here.run().reason == "thermal_trip"
    here.probe._run = lambda: make.run(make.lines(make.events()))
    assert [here.run().verdict.value for _ in range(2)] == ["ok", "ok"]
    assert gates == [None, Cool(below_c=39.0, timeout_s=60.0), None]


# --- what outlives the run ---


@pytest.fixture
def health(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HealthStore:
    monkeypatch.setenv("MNN_FARM_STATE", str(tmp_path / "state"))
    return HealthStore()


def test_a_phone_that_is_given_up_is_kept_out_of_later_runs_and_of_the_rest_of_this_one(
    session: Callable[..., Any], health: HealthStore
) -> None:
    here = session(PhoneLostError("toy-1", "gone"), recovery={"wait_s": 0.01})
    here.transport.state = lambda: "absent"
    here.transport.reconnect = lambda **_: None
    lost, skipped = here.run(), here.run()
    assert (lost.reason, skipped.reason, skipped.verdict.value) == ("device_lost", "phone_gone", "skipped")
    held = health.held(PHONE_ID, utc_now())
    assert held is not None
    assert (held.code, held.by, held.name) == ("device_lost", "auto", "toy-1")
    assert [(failure.code, failure.port) for failure in health.failures(PHONE_ID)] == [("device_lost", "SERIAL")]


def test_for_an_adb_server_that_is_gone_no_phone_is_blamed(session: Callable[..., Any], health: HealthStore) -> None:
    def no_server() -> str:
        raise AdbFailedError("toy-1", "the adb server does not answer")

    here = session(PhoneLostError("toy-1", "gone"), recovery={"wait_s": 0.01})
    here.transport.state = no_server
    here.transport.reconnect = lambda **_: None
    record = here.run()
    assert record.reason == "adb_error"
    assert record.detail.endswith("mnn-farm doctor says what is wrong with adb on this computer")
    assert (health.held(PHONE_ID, utc_now()), health.failures(PHONE_ID)) == (None, ())


def test_for_a_full_disk_of_this_computer_no_phone_is_blamed(session: Callable[..., Any], health: HealthStore) -> None:
    assert session(OSError(errno.ENOSPC, "No space left on device")).run().reason == "host_disk_full"
    assert health.failures(PHONE_ID) == ()


def test_a_plan_may_do_without_quarantine(session: Callable[..., Any], health: HealthStore) -> None:
    here = session(PhoneLostError("toy-1", "gone"), recovery={"wait_s": 0.01, "quarantine": False})
    here.transport.state = lambda: "absent"
    here.transport.reconnect = lambda **_: None
    here.run()
    assert health.held(PHONE_ID, utc_now()) is None
    assert len(health.failures(PHONE_ID)) == 1


def test_what_the_product_does_wrong_is_no_failure_of_the_phone(
    make: ModuleType, session: Callable[..., Any], health: HealthStore
) -> None:
    session(make.run(make.lines(make.events()), b"LLM init error\n")).run()
    assert health.failures(PHONE_ID) == ()


# --- the cell's id ---


def test_every_field_of_the_config_changes_the_cells_id(make: ModuleType) -> None:
    base = cell_config(cells_of(make.plan())[0], make.plan())
    other: dict[str, Any] = {
        "kind": "sustained",
        "backend": "opencl",
        "threads": 5,
        "precision": "high",
        "memory": "high",
        "affinity": "f0",
        "engine": {"use_mmap": True},
        "prompt_hash": "x",
        "prompt_tokens": 9,
        "generate_tokens": 33,
        "context_tokens": 1,
        "warmups": 2,
        "repeats": 3,
        "duration_s": 60.0,
        "load_rounds": 3,
    }
    assert set(other) == set(CellConfig.model_fields) - {"sampler"}
    ids = {cell_id_of("p", model(), bundle(), base)}
    for field, value in other.items():
        ids.add(cell_id_of("p", model(), bundle(), base.model_copy(update={field: value})))
    assert len(ids) == len(other) + 1


def test_a_cell_keeps_the_id_that_a_version_before_duration_and_load_rounds_gave_it(make: ModuleType) -> None:
    config = cell_config(cells_of(make.plan())[0], make.plan())
    old = {k: v for k, v in config.model_dump(mode="json").items() if k not in ("duration_s", "load_rounds")}
    of_old = {"phone": "p", "model": model().folder.hash, "bundle": bundle().hash, "runner": "farm_runner"}
    plain = config.model_copy(update={"duration_s": None, "load_rounds": 1})
    assert cell_id_of("p", model(), bundle(), plain) == content_id({**of_old, "config": old})


def test_phone_model_and_bundle_change_the_cells_id(make: ModuleType) -> None:
    config = cell_config(cells_of(make.plan())[0], make.plan())
    base = cell_id_of("p", model(), bundle(), config)
    assert cell_id_of("q", model(), bundle(), config) != base
    assert cell_id_of("p", model("other"), bundle(), config) != base
    assert cell_id_of("p", model(), bundle("other"), config) != base
    assert len(base) == 64


def test_names_ports_and_times_do_not_change_the_cells_id(make: ModuleType) -> None:
    config = cell_config(cells_of(make.plan())[0], make.plan())
    renamed = ModelFolder("other name", PayloadFolder(Path("/elsewhere"), model().folder.files), 7, None)
    assert cell_id_of("p", renamed, bundle(), config) == cell_id_of("p", model(), bundle(), config)


def test_how_phones_are_prepared_and_cooled_does_not_change_the_cells_id(make: ModuleType) -> None:
    dark = make.plan(prepare={"screen": "off", "airplane": True}, cool={"plateau_c_per_min": 0.5})
    cell = cells_of(dark)[0]
    assert cell_config(cell, dark) == cell_config(cell, make.plan())


def test_the_questions_change_the_cells_id_and_what_is_expected_does_not(make: ModuleType) -> None:
    def of(**plan: Any) -> str:
        chosen = make.plan(**plan)
        return cell_id_of("p", model(), bundle(), cell_config(cells_of(chosen)[0], chosen))

    ask = {"question": "Capital of Peru?", "expect": "lima"}
    assert of(ask=[ask]) == of(ask=[{**ask, "expect": "Lima city"}])
    assert of(ask=[ask]) != of(ask=[{**ask, "question": "Capital of Chile?"}])
    assert of(ask=[ask]) != of(ask=[{**ask, "max_tokens": 8}])
    assert of(ask=[ask]) != of(ask=[])


def test_the_golden_set_is_brought_to_the_work_folder_and_has_time_of_its_own(
    make: ModuleType, session: Callable[..., Any]
) -> None:
    told = make.events()
    told.insert(-1, make.generation(4, "answer", tokens=4, question="One?", text="1", finish="eos"))
    golden = {"set": "mine", "ask": [{"question": "One?", "expect": "^1$", "max_tokens": 4}]}
    here = session(make.run(make.lines(told)), golden=golden)
    record = here.run()
    assert record.verdict is Verdict.OK, record.detail
    assert (record.output.golden, record.output.golden_set.split()[0]) == ("1/1", "mine")
    [spec] = here.probe.specs
    file = spec.argv[spec.argv.index("--ask-file") + 1]
    assert here.transport.pushed == {file: b'{"text": "One?", "tokens": 4}\n'}
    assert file.startswith(f"{spec.work_dir}/")
    assert spec.deadline_s == make.plan().cell_timeout_s + 5 + 4 / 2
    answers = (here.folder.path / record.raw / "answers.jsonl").read_text().splitlines()
    assert [json.loads(line)["text"] for line in answers] == ["Lima.", "1"]


def test_the_reference_is_computed_in_the_turn_of_the_phones_group_and_a_failure_is_a_warning(
    make: ModuleType, session: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MNN_FARM_CACHE", str(tmp_path / "cache"))
    here = session(make.run(make.lines(make.events())), reference={"policy": "prefix"})
    phone = here.session.phone
    here.session.phone = replace(phone, endpoint=replace(phone.endpoint, contention_group="shared"))
    alone: list[bool] = []

    def compute(context: Any, cell: Any, say: Any) -> Found:
        try:
            FileLock(tmp_path / "cache" / "locks" / "measure-shared.lock").acquire(timeout=0)
        except Timeout:
            alone.append(True)
        finding = Finding(code="no_reference", severity="warning", title="no room")
        return Found(why="there is no reference: no room", findings=(finding,))

    monkeypatch.setattr(attempt, "find_reference", compute)
    record = here.run()
    assert alone == [True]
    assert record.verdict is Verdict.OK
    assert "no_reference" in [finding.code for finding in record.findings]
    assert record.output.match is None
    assert record.nulls["match"] == "there is no reference: no room"


def test_a_run_that_did_not_end_well_is_compared_with_nothing(
    make: ModuleType, session: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt, "find_reference", lambda *_: pytest.fail("it was looked for"))
    record = session(make.run(make.lines(make.events()), exit_code=3), reference={"policy": "prefix"}).run()
    assert record.verdict is Verdict.FAILED
    assert record.nulls["match"] == "the run did not end well: there is no text to compare"


# --- the memory's roof ---


def test_the_memorys_bandwidth_is_measured_once_and_stands_in_every_record(
    make: ModuleType, session: Callable[..., Any]
) -> None:
    here = session(make.run(make.lines(make.events())))
    here.probe.bandwidths = [21.5] * 2
    assert [here.run().metrics.bandwidth_gb_per_s for _ in range(2)] == [21.5, 21.5]
    assert here.probe.measured == 1


def test_a_phone_whose_bandwidth_cannot_be_measured_loses_that_figure_only(
    make: ModuleType, session: Callable[..., Any]
) -> None:
    record = session(make.run(make.lines(make.events()))).run()
    assert (record.verdict.value, record.metrics.bandwidth_gb_per_s) == ("ok", None)
    assert "no memory to read" in record.nulls["bandwidth_gb_per_s"]


def test_a_plan_that_wants_no_bandwidth_measures_none(make: ModuleType, session: Callable[..., Any]) -> None:
    here = session(make.run(make.lines(make.events())), roofline={"measure": False})
    here.run()
    assert here.probe.measured == 0


def test_a_roof_that_is_exceeded_is_measured_again_before_anybody_is_called_a_liar(
    make: ModuleType, session: Callable[..., Any]
) -> None:
    """50 tok/s of 1 GB each need 50 GB/s."""

    def run_with(*bandwidths: float) -> tuple[Any, int]:
        here = session(make.run(make.lines(make.events())))
        here.session.context.models["toy"] = replace(model(), read_per_token_bytes=10**9)
        here.probe.bandwidths = list(bandwidths)
        return here.run(), here.probe.measured

    record, measured = run_with(20.0, 80.0)
    assert (record.verdict.value, record.metrics.bandwidth_gb_per_s, measured) == ("ok", 80.0, 2)
    assert record.metrics.roofline_ratio == pytest.approx(0.62, abs=0.01)


def test_a_roof_that_is_exceeded_twice_is_believed(make: ModuleType, session: Callable[..., Any]) -> None:
    here = session(make.run(make.lines(make.events())))
    here.session.context.models["toy"] = replace(model(), read_per_token_bytes=10**9)
    here.probe.bandwidths = [20.0, 21.0]
    record = here.run()
    assert (record.verdict.value, record.reason) == ("rejected", "implausible_speed")
    assert "the phone's memory gives 21.0 GB/s" in record.detail


# --- the phone's log ---


def test_after_every_run_on_android_its_log_is_read_and_only_what_speaks_of_it_is_kept(
    make: ModuleType, session: Callable[..., Any]
) -> None:
    begin, noise = (b"06-01 10:00:0%d.000     1     1 I other   : x\n" % n for n in (1, 2))
    kill = b"06-01 10:00:03.000   479   479 I lowmemorykiller: Kill 'com.example.mail' (900), uid 1, oom_score_adj 9\n"
    here = session(make.run(make.lines(make.events())))
    # prepared already: only its log is to be seen
    here.session._prepared = True
    here.session.phone = replace(here.session.phone, facts=replace(here.session.phone.facts, sdk=34))
    logs = [begin, begin + noise + kill]

    def shell(argv: list[str], **_: object) -> ShellResult:
        return (
            ShellResult(0, logs.pop(0), b"") if "logcat" in argv else type(here.transport).shell(here.transport, argv)
        )

    here.transport.shell = shell
    here.session._check_battery = lambda _: None
    record = here.run()
    assert (record.verdict.value, record.metrics.killed_apps) == ("ok", 1)
    assert [found.code for found in record.findings if found.severity == "warning"] == ["killed_apps"]
    assert (here.folder.path / record.raw / "logcat").read_bytes() == kill


def test_what_has_no_android_has_no_log_to_tell(make: ModuleType, session: Callable[..., Any]) -> None:
    record = session(make.run(make.lines(make.events()))).run()
    assert record.metrics.killed_apps is None
    assert record.nulls["killed_apps"] == "the phone's log was not read"


def test_what_a_tool_says_in_the_phones_log_is_read_before_it_is_judged(
    make: ModuleType,
    session: Callable[..., Any],
    load_module: Callable[[Path], ModuleType],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tools = load_module(Path(__file__).parents[1] / "runners" / "tool_runs.py")
    chunks = tools.streamed([tools.TEXT] * 3)
    chunks[1] = (chunks[1][0], b"prompt file is /w/prompts.txt\n")
    here = session(tools.run(chunks), ask=[], threads=[2], generate_tokens=[4])
    here.session._prepared = True
    here.session._check_battery = lambda _: None
    here.session.phone = replace(here.session.phone, facts=replace(here.session.phone.facts, sdk=34))
    models = {"toy": tools.model(tmp_path / "toy")}
    here.session.context = replace(here.session.context, bundle=tools.bundle("llm_demo"), models=models)
    monkeypatch.setattr(bench_session, "ensure_on_phone", lambda *_, **__: Stored("/there", 0))
    monkeypatch.setattr(attempt, "prompt_text", lambda *_: PromptText("A phone lay", tuple(range(8)), (2,)))
    words = tools.HEAD[1].replace(b"prompt file is /w/prompts.txt\n", b"") + tools.summary(24, 12)
    begin = b"06-01 10:00:01.000     1     1 I other   : x\n"
    said = b"".join(b"06-01 10:00:02.000     7     7 I MNNJNI  : %s\n" % line for line in words.splitlines())
    logs = [begin, begin + said]

    def shell(argv: list[str], **_: object) -> ShellResult:
        if "logcat" in argv:
            return ShellResult(0, logs.pop(0), b"")
        return type(here.transport).shell(here.transport, argv)

    here.transport.shell = shell
    record = here.run()
    assert (record.verdict.value, record.detail) == ("ok", "")
    assert (record.metrics.load_ms, record.metrics.decode_tps.median, record.bundle.runner) == (310.5, 50.0, "llm_demo")
    assert here.probe.specs[0].argv[0] == "/there/llm_demo"
    assert any(remote.endswith("/model/config.json") for remote in here.transport.pushed)


def test_a_tool_that_prints_at_its_end_is_not_silent(
    make: ModuleType,
    session: Callable[..., Any],
    load_module: Callable[[Path], ModuleType],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tools = load_module(Path(__file__).parents[1] / "runners" / "tool_runs.py")
    here = session(tools.bench(tools.row(), tools.row()), ask=[], threads=[2], generate_tokens=[4])
    models = {"toy": tools.model(tmp_path / "toy")}
    here.session.context = replace(here.session.context, bundle=tools.bundle("llm_bench"), models=models)
    monkeypatch.setattr(bench_session, "ensure_on_phone", lambda *_, **__: Stored("/there", 0))
    monkeypatch.setattr(attempt, "prompt_text", lambda *_: PromptText("A phone lay", tuple(range(8)), (2,)))
    record = here.run()
    assert [spec.silence_s for spec in here.probe.specs] == [None, 300.0]
    assert [spec.argv[0] for spec in here.probe.specs] == ["/there/llm_bench", "/there/llm_demo"]
    assert record.detail.startswith("text: llm_demo gave no summary")
