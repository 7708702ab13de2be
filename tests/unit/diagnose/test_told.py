"""A diagnosis as people and programs read it, and the plans of its commands."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from harness.core.reasons import Reason
from harness.core.toml import format_toml
from harness.diagnose import rungs
from harness.diagnose.asked import Request
from harness.diagnose.climb import Climb
from harness.diagnose.folder import pytest_command
from harness.diagnose.ladder import Diagnosis, Workaround
from harness.diagnose.rung import broke, held, unknown
from harness.diagnose.setting import Setting, Shape, plan_of, plan_values
from harness.diagnose.told import as_json, result_lines, rung_line
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
