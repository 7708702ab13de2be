"""What is kept of a cell that went wrong, and that it decides nothing and is never larger than its bound."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest

from harness.bench import crash as bench_crash
from harness.bench.account import Account
from harness.bench.context import RunContext
from harness.bench.crash import Crash, deaths_in, is_wanted, memory_table
from harness.bench.crash_phone import NOTHING_ASKED, PhoneSaid
from harness.bench.evidence import Objection
from harness.bench.phone import ConnectedPhone
from harness.bench.phone_log import PhoneLog
from harness.bench.triaged import texts_of
from harness.core.provider import Endpoint
from harness.core.reasons import Reason
from harness.payload.bundle import Bundle, BundleManifest
from harness.payload.folder import PayloadFile, PayloadFolder
from harness.payload.models import ModelFolder
from harness.phone.identity import Identity
from harness.phone.tier import Placement
from harness.plan.matrix import cells_of
from harness.runners.base import MAIN, Step
from harness.store.runfolder import RunFolder
from harness.store.schema import CellRecord

STAMP = "11-30 10:00:0"
MARK = f"{STAMP}1.000   900   900 I mnn-farm: begin 00ff".encode()
BUILD_ID = "c0ffee00" * 5
CRASHED = Objection(Reason.CRASH, "killed by SIGSEGV")
OURS, THEIRS = 7, 4242


def block(pid: int, writer: int, library: str = "/vendor/lib64/libOpenCL_adreno.so", pc: str = "a1b2c") -> bytes:
    """What Android writes of a crash."""
    said = [
        f"{STAMP}2.000 {pid:5} {pid:5} F libc    : Fatal signal 11 (SIGSEGV), code 1 (SEGV_MAPERR), fault addr 0x0",
        f"{STAMP}2.100 {writer:5} {writer:5} F DEBUG   : pid: {pid}, tid: {pid}, name: x  >>> farm_runner <<<",
        f"{STAMP}2.100 {writer:5} {writer:5} F DEBUG   : signal 11 (SIGSEGV), code 1 (SEGV_MAPERR), fault addr 0x0",
        f"{STAMP}2.100 {writer:5} {writer:5} F DEBUG   :       #00 pc {pc:0>16}  {library} (BuildId: {BUILD_ID})",
    ]
    return "".join(f"{line}\n" for line in said).encode()


Make = Callable[..., tuple[Crash, Account]]


@pytest.fixture
def crashed(make: ModuleType, tmp_path: Path) -> Make:
    """A cell that went wrong, with what the phone said of it."""

    def build(said: PhoneSaid = NOTHING_ASKED, log: bytes = b"", **evidence: Any) -> tuple[Crash, Account]:
        class Transport:
            name, serial, base_dir, server = "toy-1", "10.0.0.7:5555", "/x", ("127.0.0.1:5037", 41)

        manifest = BundleManifest(name="toy", runner="farm_runner", backends=["cpu"], program="run", files=["run"])
        bundle = Bundle(manifest, PayloadFolder(tmp_path / "bundle", (PayloadFile("run", 1, "b" * 64, True),)))
        model = ModelFolder("toy", PayloadFolder(Path(), (PayloadFile("llm.mnn", 1, "m"),)), 80_000_000, 4)
        placed = Placement("mid", "made up", None)
        phone = ConnectedPhone(
            Endpoint("toy-1"), cast("Any", Transport()), cast("Any", None), make.facts(), Identity("id-1"), placed
        )
        plan = make.plan()
        folder = RunFolder.create(tmp_path / "run")
        account = Account(phone, RunContext("r1", folder.path, plan, bundle, {"toy": model}), cells_of(plan)[0])
        account.raw_dir()
        account.evidence = replace(make.evidence(b"", exit_code=None, signal=11, **evidence), phone_log=log)
        account.ran.log = PhoneLog(log, "", MARK, signed=True, ended=True)
        account.ran.order = make.order()
        account.ran.steps.append(Step(MAIN, ("./run",), files={"config.json": b"{}"}))
        account.crash = Crash(account, said, 0.25)
        return account.crash, account

    return build


def written(account: Account) -> tuple[CellRecord, Path, dict[str, Any]]:
    record = account.record([CRASHED])
    assert account.crash is not None
    assert account.raw is not None
    account.crash.write(record)
    folder = account.raw / "crash"
    return record, folder, json.loads((folder / "crash.json").read_bytes())


@pytest.mark.parametrize(
    ("reason", "wanted"),
    [
        (Reason.CRASH, True),
        (Reason.HANG, True),
        (Reason.THERMAL_SHUTDOWN, True),
        (Reason.OUTPUT_WRONG, True),
        (Reason.OUTPUT_DEGENERATE, True),
        (Reason.BACKEND_FALLBACK, True),
        (Reason.TOKEN_COUNT_SHORT, False),
        (Reason.NOISY, False),
        (Reason.DEVICE_LOST, False),
        (Reason.MODEL_TOO_BIG, False),
        (Reason.LOW_BATTERY, False),
        (Reason.HARNESS_ERROR, False),
    ],
)
def test_it_is_collected_where_the_product_is_at_fault_and_logs_matter(reason: Reason, wanted: bool) -> None:
    assert is_wanted([Objection(reason, "x"), CRASHED]) is wanted
    assert not is_wanted([])


def test_everything_that_is_known_is_kept_and_listed(crashed: Make) -> None:
    _, account = crashed(PhoneSaid({"meminfo": b"MemTotal: 8 kB"}, {"dmesg": "it is denied"}), log=block(OURS, 99))
    record, folder, told = written(account)
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    assert {one["name"] for one in told["files"]} == set(files) - {"crash.json"}
    assert set(files) == {
        "crash.json",
        "evidence/phone.log",
        "command.txt",
        "work/main/config.json",
        "record.json",
        "facts.json",
        "payload.json",
        "logcat.log",
        "meminfo-at-death.txt",
        "memory.csv",
    }
    assert all(one["bytes"] == files[one["name"]].stat().st_size for one in told["files"])
    assert [one["name"] for one in told["files"] if one["evidence"]] == ["evidence/phone.log"]
    assert told["missing"] == [{"what": "dmesg", "why": "it is denied"}]
    assert (told["transport"], told["took_s"], told["log"]["begin"]) == ("10.0.0.7:5555", 0.25, "seen")
    assert json.loads(files["record.json"].read_bytes()) == json.loads(record.to_json_line())
    assert json.loads(files["payload.json"].read_bytes())["bundle"]["files"][0]["sha256"] == "b" * 64
    assert "adb -s 10.0.0.7:5555 push work/main/config.json /w/config.json" in files["command.txt"].read_text()


def test_the_crash_of_another_program_between_is_not_taken_for_ours(crashed: Make) -> None:
    log = block(THEIRS, 98, library="/system/lib64/libcamera.so") + block(OURS, 99)
    crash, account = crashed(log=log)
    assert "libOpenCL_adreno.so" in crash.causes[0].evidence
    assert b"libcamera" not in texts_of(cast("Any", account.evidence))["phone's log"]


@pytest.mark.parametrize(
    ("texts", "source"),
    [
        ({"crash": block(OURS, 99), "tombstone_03": b"x"}, "crash buffer"),
        ({"crash": block(THEIRS, 99), "tombstone_03": b"pid: 7, tid: 7, name: x\n"}, "tombstone_03"),
        ({"crash": b"", "tombstone_03": b"pid: 71, tid: 71, name: x\n"}, None),
    ],
)
def test_what_the_log_lacks_is_taken_from_the_crash_buffer_else_from_our_tombstone(
    crashed: Make, texts: dict[str, bytes], source: str | None
) -> None:
    _, account = crashed(said := PhoneSaid(texts, {}))
    found = texts_of(cast("Any", account.evidence), said, account.ran.log)
    assert [name for name in found if name != "stderr"] == ([source] if source else [])


def test_what_the_crash_buffer_holds_from_before_the_run_is_another_runs(crashed: Make) -> None:
    old = block(OURS, 99).replace(b"10:00:02", b"09:00:02")
    _, account = crashed(said := PhoneSaid({"crash": old}, {}))
    assert texts_of(cast("Any", account.evidence), said, account.ran.log) == {}


def test_the_kernels_word_of_a_kill_counts_where_the_log_has_none(crashed: Make) -> None:
    line = b"[ 312.004] Out of memory: Killed process 7 (farm_runner) total-vm:9000000kB"
    crash, _ = crashed(PhoneSaid({"dmesg": b"[ 1.0] usb: x\n" + line + b"\n"}, {}))
    assert crash.causes[0].code == "out_of_memory"


def test_frames_are_named_by_the_unstripped_files_in_the_bundles_folder(
    crashed: Make, load_module: Callable[[Path], ModuleType], tmp_path: Path
) -> None:
    elf = load_module(Path(__file__).parents[1] / "triage" / "test_symbols.py").elf
    (tmp_path / "bundle" / "symbols").mkdir(parents=True)
    (tmp_path / "bundle" / "symbols" / "libMNN.so").write_bytes(elf({"_ZN3MNN7Session6resizeEv": (0x1000, 0x40)}))
    crash, account = crashed(log=block(OURS, 99, library="/data/local/tmp/x/libMNN.so", pc="1018"))
    assert "MNN::Session::resize()+24" in crash.causes[0].evidence
    frame = {"path": "/data/local/tmp/x/libMNN.so", "pc": "0000000000001018", "function": "MNN::Session::resize()+24"}
    assert written(account)[2]["frames"] == [frame]


def test_what_the_phone_did_not_tell_to_the_end_is_said_of_that_file(crashed: Make) -> None:
    _, account = crashed(PhoneSaid({"dmesg": b"[ 1.0] x"}, {}, {"dmesg": "the rest: it took longer than 4 s"}))
    _, _, told = written(account)
    assert {one["name"]: one["cut"] for one in told["files"]}["dmesg.log"] == "the rest: it took longer than 4 s"


def test_hostile_names_and_bytes_of_a_phone_stay_in_the_folder(crashed: Make) -> None:
    texts = {"tombstone_../../../evil": b"\xff\x00pid: 7, tid: 7, name: x\n", "meminfo": b"\xff"}
    _, account = crashed(PhoneSaid(texts, {"\udcff": "\udcff"}))
    _, folder, told = written(account)
    assert not list(account.folder.path.parent.rglob("evil"))
    assert (folder / "evil.txt").read_bytes() == texts["tombstone_../../../evil"]
    assert {"what": "\udcff", "why": "\udcff"} in told["missing"]


def test_no_bundle_grows_beyond_its_bound_and_what_is_left_out_is_named(
    crashed: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_crash, "MOST_BYTES", 20_000)
    _, account = crashed(
        PhoneSaid({}, {}), log=b"".join(b"%s5.000     1     1 I x: y\n" % STAMP.encode() for _ in range(9999))
    )
    _, folder, told = written(account)
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.name != "crash.json") <= 20_000
    assert [one["what"] for one in told["missing"]] == ["logcat.log"]


def test_a_folder_that_cannot_be_written_costs_the_record_nothing(crashed: Make) -> None:
    crash, account = crashed()
    assert account.raw is not None
    (account.raw / "crash").write_text("in the way")
    record = account.record([CRASHED])
    crash.write(record)
    assert record.reason == "crash"


def test_a_run_that_came_to_no_end_keeps_what_there_is_and_says_so(crashed: Make) -> None:
    _, account = crashed()
    account.evidence, account.ran.order = None, None
    account.crash = Crash(account, NOTHING_ASKED, 0.0)
    _, _, told = written(account)
    assert {"evidence", "command", "dmesg"} <= {one["what"] for one in told["missing"]}


def test_the_samples_are_a_table_of_their_last_and_the_first(make: ModuleType) -> None:
    samples = tuple(make.sample(mono_ns=(5 + n) * 1_000_000_000, rss_bytes=None) for n in range(700))
    lines = memory_table(make.run(samples=samples)).decode().splitlines()
    assert lines[0].startswith("t_s,processes,rss_bytes,anon_bytes")
    assert len(lines) == 601
    assert lines[1].split(",")[:3] == ["4.995", "1", ""], "what is not known is empty, never 0"
    assert lines[2].startswith("105.995,")


def test_only_lines_that_tell_of_a_death_are_shown_as_such() -> None:
    log = (
        b"I lowmemorykiller: Kill 'a' (1), uid 2\nI ActivityManager: Process com.a (pid 1) has died: fg TOP\n"
        b"I ActivityManager: Start proc 7:com.b\nI am_proc_died: [0,1,com.a]\nD other: x\n"
        b"\xff Out of memory: Killed process 1\n"
    )
    assert [line.split(" ")[1] for line in deaths_in(log)] == [
        "lowmemorykiller:",
        "ActivityManager:",
        "am_proc_died:",
        "Out",
    ]
