"""The ladder on a virtual phone: a healthy one passes, and each fault is named by the rung that it breaks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.adb.transport import AdbTransport
from harness.bench.lease import lease_file
from harness.core.provider import Endpoint
from harness.diagnose.ladder import Diagnosis, Watch
from harness.diagnose.rung import State
from harness.diagnose.told import result_lines
from harness.payload.models import find_model
from harness.payload.probe import Probe
from harness.plan.load import load_plan
from harness.report.html import write_report
from harness.store.runfolder import RunFolder
from harness.virtual.control import PhoneControl

PHONES = ("high",)
Climb = Callable[..., Diagnosis]


@pytest.fixture
def phone(virtual_phones: list[Endpoint]) -> Iterator[Endpoint]:
    """A healthy phone without a GPU's driver, healed afterwards."""
    yield virtual_phones[0]
    PhoneControl(virtual_phones[0].name).heal()


@pytest.fixture
def climb(phone: Endpoint, arena: ModuleType, tmp_path: Path) -> Climb:
    def run(**asked: Any) -> Diagnosis:
        found: Diagnosis = arena.climb(phone, tmp_path, **asked)
        return found

    return run


def is_free(endpoint: Endpoint) -> bool:
    """Whether nobody has the phone."""
    transport = AdbTransport(endpoint)
    return Probe.install(transport).show_lease(lease_file(transport.base_dir)).state == "free"


def test_a_healthy_phone_holds_every_rung_and_its_records_make_a_report(
    climb: Climb, phone: Endpoint, tmp_path: Path
) -> None:
    found = climb()
    assert found.broken is None, result_lines(found)
    states = {rung.name: outcome.state for rung, outcome in found.climb.tried}
    assert {name for name, state in states.items() if state is State.UNKNOWN} == {"opencl", "vulkan"}
    assert list(states)[-2:] == ["prompt", "sustained"]
    assert found.exit_status == 0
    records = list(RunFolder(tmp_path / "run").records())
    assert [record.reason for record in records if record.reason] == ["backend_missing_on_phone"] * 2
    assert write_report(tmp_path / "run").is_file()
    assert is_free(phone)


@pytest.mark.parametrize(
    ("fault", "expected", "says"),
    [
        ("full-disk", ("storage", "no_space"), "No space left on device"),
        ("read-only", ("storage", "read_only"), "Read-only file system"),
        ("noexec", ("probe", "noexec"), "noexec"),
        ("offline", ("phone", "device_offline"), "offline"),
        ("unauthorized", ("phone", "unauthorized"), "unauthorized"),
    ],
)
def test_a_phone_that_is_not_fit_breaks_a_rung_below_the_engine(
    climb: Climb, phone: Endpoint, arena: ModuleType, fault: str, expected: tuple[str, str], says: str
) -> None:
    PhoneControl(phone.name).inject(fault)
    found = climb()
    assert arena.layer(found) == expected
    assert says in "\n".join(result_lines(found))
    assert found.failing is None
    assert found.exit_status == 1


def test_a_phone_that_somebody_has_is_left_to_them(climb: Climb, phone: Endpoint, arena: ModuleType) -> None:
    transport = AdbTransport(phone)
    probe = Probe.install(transport)
    file = lease_file(transport.base_dir)
    taken = probe.take_lease(file, owner="bob", host="lab-2", purpose="play", ttl_s=60)
    assert taken.holder is not None
    try:
        found = climb()
        assert arena.layer(found) == ("ready", "busy")
        assert "in use by bob on lab-2 for play" in "\n".join(result_lines(found))
        assert probe.show_lease(file).state == "held"
    finally:
        probe.end_lease(file, taken.holder.id)


def test_half_a_weight_file_is_found_before_a_phone_is_touched(climb: Climb, arena: ModuleType, tmp_path: Path) -> None:
    model = arena.model_copy(tmp_path / "models")
    weights = model / "llm.mnn.weight"
    weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])
    found = climb(model=model)
    assert arena.layer(found) == ("model", "model_incomplete")
    assert len(found.climb.tried) == 1
    assert "is cut off" in found.broken[1].detail  # type: ignore[index]


def test_a_bundle_for_another_abi_does_not_fit(climb: Climb, arena: ModuleType, tmp_path: Path) -> None:
    arm = {"farm_runner": arena.program(arena.ARM64, arena.ILLEGAL[arena.ARM64])}
    honest = climb(bundle=arena.bundle_of(tmp_path / "honest", arm, ("arm64-v8a",)))
    assert arena.layer(honest) == ("bundle", "abi_mismatch")
    assert "is for arm64-v8a, the phone runs x86_64" in honest.broken[1].detail  # type: ignore[index]


def test_a_bundle_whose_program_is_not_for_the_abi_that_it_claims_does_not_fit(
    climb: Climb, arena: ModuleType, tmp_path: Path
) -> None:
    arm = {"farm_runner": arena.program(arena.ARM64, arena.ILLEGAL[arena.ARM64])}
    found = climb(bundle=arena.bundle_of(tmp_path / "claims", arm, ("x86_64",)))
    assert arena.layer(found) == ("bundle", "abi_mismatch")


def test_a_model_that_is_newer_than_the_engine_is_named_by_what_it_does_not_know(
    climb: Climb, arena: ModuleType, tmp_path: Path
) -> None:
    files = {"farm_runner": arena.program(arena.X86_64, arena.ILLEGAL[arena.X86_64])}
    found = climb(bundle=arena.bundle_of(tmp_path / "old", files, engine_version="3.3.0"))
    assert arena.layer(found) == ("engine", "bundle_mismatch")
    assert "MNN 3.3.0 does not know the tokenizer" in found.broken[1].detail  # type: ignore[index]
    assert found.broken[1].advice[0].startswith("Take device binaries of MNN 3.5.0 or newer")  # type: ignore[index]
    assert found.reproduce == f"mnn-farm models verify {find_model('tiny-llama')} --engine-version 3.3.0"


def test_a_library_that_is_missing_is_named(climb: Climb, arena: ModuleType, tmp_path: Path) -> None:
    found = climb(bundle=arena.bundle_of(tmp_path / "lacks", {"farm_runner": arena.lacking_a_library()}))
    assert arena.layer(found) == ("links", "link_error")
    broken = found.broken[1]  # type: ignore[index]
    assert broken.code == "missing_shared_library"
    assert "libQ.so.6 is neither among the files of the bundle nor on this phone" in broken.cause
    assert broken.reproduce.endswith("farm_runner --help'")


def test_an_instruction_that_the_cpu_lacks_breaks_the_start_or_the_load(
    climb: Climb, arena: ModuleType, tmp_path: Path
) -> None:
    files = {"farm_runner": arena.program(arena.X86_64, arena.ILLEGAL[arena.X86_64])}
    at_start = climb(bundle=arena.bundle_of(tmp_path / "start", files))
    assert arena.layer(at_start) == ("links", "illegal_instruction")
    assert "SIGILL" in "\n".join(at_start.broken[1].evidence)  # type: ignore[index]
    (tmp_path / "run").rename(tmp_path / "first")
    at_load = climb(bundle=arena.synthetic(tmp_path / "load", "fault=SIGILL", "at=load"), workaround=False)
    assert arena.layer(at_load) == ("load", "illegal_instruction")


def test_a_hang_in_decode_ends_in_time_and_says_how_far_it_came(
    climb: Climb, arena: ModuleType, tmp_path: Path
) -> None:
    sizes = replace(arena.SIZES, patience_s=3.0)
    found = climb(bundle=arena.synthetic(tmp_path / "hangs", "fault=hang"), sizes=sizes, workaround=False)
    assert arena.layer(found) == ("token", "hang")
    assert found.broken[1].detail.endswith("the model was loaded, no answer was finished")  # type: ignore[index]
    plan = load_plan(tmp_path / "run" / "fails.toml")
    assert (plan.threads, plan.models) == ([1], [str(find_model("tiny-llama"))])
    assert found.reproduce.startswith("pytest --devices ")
    [record] = RunFolder(tmp_path / "run").records()
    assert record.reason == "hang"


def test_mnns_own_tools_are_climbed_as_far_as_they_tell(climb: Climb, arena: ModuleType, tmp_path: Path) -> None:
    """A stand-in that prints what llm_bench prints; such a bundle may consist of scripts."""
    found = climb(bundle=arena.mnn_tools(tmp_path / "tools"), workaround=False)
    assert found.broken is None, result_lines(found)
    unknown = {rung.name for rung, outcome in found.climb.tried if outcome.state is State.UNKNOWN}
    assert unknown == {"text", "opencl", "vulkan", "sustained"}


def test_garbage_for_output_breaks_the_first_token_and_garbage_for_text_the_text(
    climb: Climb, arena: ModuleType, tmp_path: Path
) -> None:
    output = climb(bundle=arena.synthetic(tmp_path / "output", "fault=garbage"), workaround=False)
    assert arena.layer(output) == ("token", "unparsed_output")
    (tmp_path / "run").rename(tmp_path / "first")
    text = climb(bundle=arena.synthetic(tmp_path / "text", "token_ids=7,8,9"), workaround=False)
    assert arena.layer(text) == ("text", "output_degenerate")


def test_whoever_interrupts_a_climb_gets_the_phone_back_as_it_was(
    climb: Climb, phone: Endpoint, arena: ModuleType, tmp_path: Path
) -> None:
    def interrupt(what: str) -> None:
        if what.startswith("running"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        climb(bundle=arena.synthetic(tmp_path / "fine"), watch=Watch(say=interrupt))
    assert is_free(phone)


def test_whoever_interrupts_the_search_for_settings_keeps_what_the_climb_found(
    climb: Climb, phone: Endpoint, arena: ModuleType, tmp_path: Path
) -> None:
    def interrupt(what: str) -> None:
        if what.startswith("trying"):
            raise KeyboardInterrupt

    found = climb(bundle=arena.synthetic(tmp_path / "dies", "fault=SIGSEGV", "at=load"), watch=Watch(say=interrupt))
    assert arena.layer(found) == ("load", "crash")
    assert found.why_none == "the search was interrupted"
    assert found.exit_status == 1
    assert is_free(phone)


@pytest.mark.parametrize(
    ("fault", "reason", "why_none"),
    [
        ("cut", "device_lost", "the phone's state or the connection is at fault, not a setting"),
        ("full-disk", "no_space", "no setting of the engine changes this layer"),
        ("noexec", "noexec", "no setting of the engine changes this layer"),
    ],
)
def test_what_happens_to_a_phone_amid_a_run_is_named_on_the_rung_that_it_was_on(
    climb: Climb,
    phone: Endpoint,
    arena: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
    reason: str,
    why_none: str,
) -> None:
    monkeypatch.setattr("harness.diagnose.setting._RECOVERY", {"wait_s": 1.0, "tries": 0, "quarantine": False})

    def pull(what: str) -> None:
        if what.startswith("running"):
            PhoneControl(phone.name).inject(fault)

    found = climb(bundle=arena.synthetic(tmp_path / "slow", "load_ms=3000"), watch=Watch(say=pull))
    assert arena.layer(found) == ("load", reason)
    assert found.why_none == why_none


def test_the_command_prints_one_document_and_tells_of_each_rung_meanwhile(
    phone: Endpoint, arena: ModuleType, tmp_path: Path
) -> None:
    model = arena.model_copy(tmp_path / "models")
    (model / "tokenizer.mtok").unlink()
    words = ["diagnose", "--device", phone.transport_serial, "--model", str(model), "--json"]
    argv = [sys.executable, "-m", "harness.cli", *words, "--run-dir", str(tmp_path / "run")]
    clean = {key: value for key, value in os.environ.items() if not key.startswith("ANDROID_")}
    env = {**clean, "ANDROID_ADB_SERVER_PORT": str(phone.adb_port)}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False, env=env)
    assert done.returncode == 1, done.stderr
    told = json.loads(done.stdout)
    assert (told["ok"], told["layer"], told["broken"]["reason"]) == (False, "model", "model_incomplete")
    assert "host" in told["not_tried"]
    assert "✗ model" in done.stderr
    assert json.loads((tmp_path / "run" / "diagnosis.json").read_text()) == told
