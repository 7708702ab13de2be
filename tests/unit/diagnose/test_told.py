"""A diagnosis as people and programs read it, and the plans of its commands."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from harness.core.reasons import Reason
from harness.core.resources import data_root
from harness.core.toml import format_toml
from harness.diagnose import rungs
from harness.diagnose.asked import Request
from harness.diagnose.climb import Climb
from harness.diagnose.folder import pytest_command
from harness.diagnose.ladder import Diagnosis, Workaround, again_of
from harness.diagnose.rung import Outcome, broke, held, unknown
from harness.diagnose.setting import Setting, Shape, plan_of, plan_values
from harness.diagnose.told import as_json, result_lines, rung_line, steps_of, wrapped
from harness.plan.load import load_plan
from harness.plan.matrix import cells_of

REQUEST = Request("R58M", Path("/models/mine"), "mine")
FAILS = Setting(threads=8)
CRASH = replace(
    broke(Reason.CRASH, "killed by SIGSEGV", evidence=["signal 11"]),
    cause="It read where nothing is.",
    advice=("Use fewer threads.", "Send us the tombstone."),
    seconds=1.25,
    raw="raw/ab/1/",
)


def diagnosis() -> Diagnosis:
    tried = ((rungs.PHONE, held("here")), (rungs.OPENCL, unknown("no driver")), (rungs.THREADS, CRASH))
    works = replace(FAILS, threads=2)
    return Diagnosis(
        REQUEST,
        Climb(tried, (rungs.PROMPT,)),
        Path("reports/d"),
        reproduce="pytest --plan fails.toml",
        failing=FAILS,
        workarounds=(Workaround(works, FAILS.changes(works), "pytest --plan works-1.toml"),),
        tried=3,
    )


def test_a_rung_is_one_line_with_its_mark_its_seconds_and_what_was_seen() -> None:
    assert rung_line(rungs.PHONE, replace(held("it is here"), seconds=0.5)) == "✓ phone       0.5 s  it is here"
    assert rung_line(rungs.THREADS, CRASH) == "✗ threads     1.2 s  crash: killed by SIGSEGV"
    assert rung_line(rungs.TEXT, unknown("no MNN here")) == "– text        0.0 s  not checkable: no MNN here"


def test_what_a_phone_says_cannot_change_the_terminal() -> None:
    assert "\x1b" not in rung_line(rungs.PHONE, held("\x1b[2Jevil"))


def test_the_result_is_layer_cause_and_what_to_do_then_what_works_and_the_commands() -> None:
    assert result_lines(diagnosis()) == [
        "layer:      threads (all threads): it breaks as soon as several threads compute; at fault: model, engine or "
        "the phone's driver",
        "cause:      It read where nothing is. Seen: killed by SIGSEGV",
        "do:         Use fewer threads.",
        "            Send us the tombstone.",
        "workaround: threads 2 (that is: cpu, 2 threads, precision low, memory low, prompt of 32 tokens)",
        "fails:      pytest --plan fails.toml",
        "works:      pytest --plan works-1.toml",
        "seen:       signal 11",
        "records:    reports/d, raw output in reports/d/raw/ab/1; not checkable: opencl",
    ]


def test_a_phone_on_which_all_holds_is_told_in_a_sentence() -> None:
    fine = Diagnosis(REQUEST, Climb(((rungs.PHONE, held()), (rungs.VULKAN, unknown("no driver")))), Path("reports/d"))
    assert result_lines(fine)[0] == "All 1 rungs that can be checked hold; not checkable: vulkan."
    assert (fine.exit_status, as_json(fine)["ok"], as_json(fine)["layer"]) == (0, True, None)


def test_the_document_says_the_same_to_programs() -> None:
    told = json.loads(json.dumps(as_json(diagnosis())))
    assert (told["ok"], told["layer"], told["not_tried"]) == (False, "threads", ["prompt"])
    assert [(one["rung"], one["state"]) for one in told["rungs"]] == [
        ("phone", "held"),
        ("opencl", "not checkable"),
        ("threads", "broke"),
    ]
    assert (told["broken"]["reason"], told["broken"]["fault"]) == ("crash", "product")
    assert told["workarounds"][0]["changed"] == {"threads": 2}
    assert told["failing_setting"]["threads"] == 8


def test_the_documentation_names_every_key_of_the_document() -> None:
    page = (data_root() / "docs" / "diagnose.md").read_text()
    told = as_json(diagnosis())
    for key in (*told, *told["workarounds"][0], *told["broken"]):
        assert f"`{key}`" in page


def test_a_layer_that_broke_is_exit_1_and_a_bug_of_ours_3() -> None:
    assert diagnosis().exit_status == 1
    ours = replace(diagnosis(), climb=Climb(((rungs.PHONE, broke(Reason.HARNESS_ERROR, "KeyError: 'x'")),)))
    assert ours.exit_status == 3


def test_the_plan_of_a_setting_is_one_cell_and_reads_back_as_it_was_run(tmp_path: Path) -> None:
    setting = Setting("cpu", 4, "high", "normal", 100, use_mmap=True)
    shape = Shape(8, 20.0, duration_s=5.0)
    file = tmp_path / "plan.toml"
    file.write_text(format_toml(plan_values(setting, shape, "tiny-llama")))
    plan, cell = plan_of(setting, shape, "tiny-llama")
    assert load_plan(file) == plan
    assert cells_of(load_plan(file)) == [cell]
    assert (cell.threads, cell.precision, cell.memory, cell.engine) == (4, "high", "normal", {"use_mmap": True})
    assert plan.cell_timeout_s == 25.0


def test_the_command_names_phone_plan_and_bundle_quoted() -> None:
    request = replace(REQUEST, bundle_word="my build", adb="lab:5037")
    command = pytest_command(request, Path("/r/fails.toml"))
    assert command == "pytest --devices R58M --plan /r/fails.toml --bundle 'my build' --adb lab:5037"


def test_advice_is_a_sentence_a_line_and_versions_are_no_sentences() -> None:
    advice = "delete `x.bin` and run again. Try MNN 3.0.4 (not 3.0.0). `mnn-farm clean` makes room."
    assert steps_of(advice) == [
        "Delete `x.bin` and run again.",
        "Try MNN 3.0.4 (not 3.0.0).",
        "`mnn-farm clean` makes room.",
    ]


def test_prose_is_wrapped_below_its_begin_and_a_command_stays_whole() -> None:
    command = f"fails:      pytest --plan {'x' * 60}"
    lines = list(wrapped([f"cause:      {'word ' * 20}end", command], 60))
    assert max(map(len, lines[:-1])) <= 60
    assert lines[0].startswith("cause:      word")
    assert all(line.startswith(" " * 12 + "word") for line in lines[1:-1])
    assert lines[-1] == command


def _broken_by(outcome: Outcome) -> str:
    found = replace(diagnosis(), climb=Climb(((rungs.SUSTAINED, outcome),)))
    return "\n".join(result_lines(found))


def test_a_cell_in_which_the_product_failed_comes_with_the_command_of_its_crash_bundle() -> None:
    assert "report:     mnn-farm crash reports/d ab12 --redact" in _broken_by(replace(CRASH, record="ab12"))
    assert "mnn-farm crash" not in _broken_by(CRASH)


def test_a_phone_that_was_lost_in_a_run_does_not_speak_against_the_rung() -> None:
    lost = replace(broke(Reason.DEVICE_LOST, "it is gone"), record="ab12")
    assert "the rung is not at fault" in _broken_by(lost)
    assert rungs.SUSTAINED.why not in _broken_by(lost)
    assert rungs.SUSTAINED.why in _broken_by(replace(broke(Reason.THROTTLED, "hot"), record="ab12"))


def test_advice_for_many_cells_is_told_for_a_climb() -> None:
    assert "climb again" in broke(Reason.DEVICE_LOST, "gone").advice[0]
    of_plans = {Reason.OUT_OF_TIME}
    told = {reason for reason in Reason if "--resume" in broke(reason, "x").advice[0]}
    assert told <= of_plans


def test_evidence_that_says_what_is_told_above_is_left_out() -> None:
    said = broke(Reason.NO_SPACE, "disk full; with that lease_lost", evidence=["error:1: disk full", "df: 100%"])
    assert "seen:       df: 100%" in _broken_by(said)
    assert "error:1" not in _broken_by(said)


def test_a_climb_that_is_repeated_takes_a_run_folder_of_its_own() -> None:
    command = ["mnn-farm", "diagnose", "--run-dir", "d", "--device", "virtual:high", "--run-dir=e", "--json"]
    assert again_of(command) == "mnn-farm diagnose --device virtual:high --json"
