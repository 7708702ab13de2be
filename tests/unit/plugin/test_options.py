from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.core.errors import ConfigError
from harness.payload.bundle import default_bundle
from harness.payload.models import find_model, read_model
from harness.plan.model import Plan, plan_options
from harness.plugin.options import Again, join_values, needs_devices, read_again, read_request
from harness.store.head import RunInfo, Source
from harness.store.resume import Choice

NOW = datetime(2026, 3, 5, 22, 10, tzinfo=timezone.utc)


def config(**given: Any) -> pytest.Config:
    """What pytest makes of a command line: options that were not given are None, switches False."""
    values = {"resume": False, "dry_run_plan": False, **given}
    nowhere = Path("/nonexistent")
    made = SimpleNamespace(getoption=values.get, rootpath=nowhere, invocation_params=SimpleNamespace(dir=nowhere))
    return cast("pytest.Config", made)


def head(model: Path, **plan: Any) -> RunInfo:
    """The head of a run that was begun with a model in a folder and the bundle that is ours."""
    chosen = Plan.model_validate({"models": ["mine"], "backends": ["cpu"], "threads": [3], **plan})
    ours = default_bundle()
    return RunInfo(
        run_id="r1", started="2026-01-01T00:00:00Z", command=("pytest",), harness_version="0", versions={}, host={},
        plan_name="night", plan=chosen.model_dump(mode="json", by_alias=True), fleet=(),
        models={"mine": Source(name="mine", hash="h", folder=str(model))},
        bundle=Source(name=ours.manifest.name, hash=ours.hash, folder=str(ours.folder.root)),
    )  # fmt: skip


def test_values_of_our_options_are_joined_so_that_pytest_takes_none_for_a_path() -> None:
    args = [
        "-q",
        "--devices",
        "virtual:2",
        "--model",
        "/models/a",
        "--model=/models/b",
        "tests/mine",
        "--threads",
        "1,2",
    ]
    assert join_values(args) == [
        "-q",
        "--devices=virtual:2",
        "--model=/models/a",
        "--model=/models/b",
        "tests/mine",
        "--threads=1,2",
    ]


def test_an_option_at_the_end_without_its_value_is_left_for_pytest_to_refuse() -> None:
    assert join_values(["--devices"]) == ["--devices"]


def test_switches_and_options_of_others_are_left_alone() -> None:
    args = ["--dry-run-plan", "-n", "0", "-k", "--devices", "all"]
    assert join_values(args) == ["--dry-run-plan", "-n", "0", "-k", "--devices=all"]


def test_every_plan_field_that_may_be_overridden_has_an_option_with_its_help() -> None:
    made = {option.flag: option for option in plan_options()}
    assert list(made) == [
        "--backends",
        "--threads",
        "--precision",
        "--memory",
        "--prompt-tokens",
        "--generate-tokens",
        "--warmups",
        "--repeats",
        "--runner",
    ]
    assert made["--backends"].help.startswith("override the plan's backends: what computes (cpu, opencl, vulkan)")
    assert made["--threads"].parse("1, 2,x") == [1, 2, "x"]
    assert made["--repeats"].parse("7") == 7


def test_every_value_of_ours_is_joined_and_means_nothing_without_devices() -> None:
    for flag, dest in (
        ("--rerun", "rerun"),
        ("--until", "until"),
        ("--budget", "budget"),
        ("--wait-lease", "wait_lease"),
        ("--max-parallel", "max_parallel"),
        ("--push-slots", "push_slots"),
        ("--run-dir", "run_dir"),
        ("--threads", "mnn_threads"),
    ):
        assert join_values([flag, "7"]) == [f"{flag}=7"]
        assert needs_devices(config(**{dest: "0"})) == flag
    assert needs_devices(config(resume=True)) == "--resume"
    assert needs_devices(config(devices="all")) is None


def test_a_new_run_is_wanted_unless_somebody_says_otherwise() -> None:
    assert read_again(config(run_dir="out")) is None


def test_resume_and_rerun_say_what_is_to_be_done_where() -> None:
    assert read_again(config(run_dir="out", resume=True)) == Again(Path("out"), True, Choice())
    chosen = Choice(frozenset({("reason", "noisy"), ("fault", "infra")}))
    assert read_again(config(run_dir="out", rerun=["reason=noisy", "fault=infra"])) == Again(Path("out"), False, chosen)


@pytest.mark.parametrize(("given", "flag"), [({"resume": True}, "--resume"), ({"rerun": ["fault=infra"]}, "--rerun")])
def test_which_run_must_be_said(given: dict[str, Any], flag: str) -> None:
    with pytest.raises(ConfigError, match=f"{flag} needs --run-dir: say which run"):
        read_again(config(**given))


def test_a_run_is_resumed_with_its_own_plan_model_and_bundle(tmp_path: Path) -> None:
    model = tmp_path / "mine"
    model.mkdir()
    for file in find_model("tiny-llama").iterdir():
        (model / file.name).write_bytes(file.read_bytes())
    begun = head(model)
    request = read_request(config(), NOW, begun)
    assert (request.plan_name, request.plan_values) == ("night", begun.plan)
    assert request.model_sources == {"mine": Source(name="mine", hash=read_model(model).folder.hash, folder=str(model))}
    assert request.bundle_source == begun.bundle


def test_what_overrides_the_plan_changes_the_runs_own_plan_and_a_named_plan_replaces_it() -> None:
    begun = head(find_model("tiny-llama"))
    changed = read_request(config(mnn_threads="1,2"), NOW, begun)
    assert changed.plan_values == {**begun.plan, "threads": [1, 2]}
    named = read_request(config(plan="smoke"), NOW, begun)
    assert (named.plan_name, named.plan.models, named.plan.threads) == ("smoke", ["tiny-llama"], [1, 2])


def test_a_model_that_is_no_longer_where_the_run_had_it_is_looked_for_by_its_name(tmp_path: Path) -> None:
    begun = head(tmp_path / "gone")
    with pytest.raises(ConfigError, match="there is no model called mine"):
        read_request(config(), NOW, begun)
    request = read_request(config(model=["tiny-llama"]), NOW, begun)
    assert list(request.models) == ["tiny-llama"]


def test_a_plan_that_this_version_cannot_read_is_one_sentence() -> None:
    begun = head(find_model("tiny-llama"))
    begun = begun.model_copy(update={"plan": {**begun.plan, "tomorrow": 1}})
    with pytest.raises(ConfigError, match=r"the plan of this run \(run\.json\): unknown key 'tomorrow'"):
        read_request(config(), NOW, begun)


def test_the_time_and_patience_of_a_run() -> None:
    request = read_request(config(plan="smoke"), NOW)
    assert (request.stop_at, request.wait_lease_s) == (None, 0.0)
    request = read_request(config(plan="smoke", budget="90m", wait_lease="2.5"), NOW)
    assert (request.stop_at, request.wait_lease_s) == (NOW + timedelta(minutes=90), 2.5)


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf"])
def test_patience_is_a_number_of_seconds(text: str) -> None:
    with pytest.raises(ConfigError, match=f"--wait-lease {text}: it is no number of seconds"):
        read_request(config(plan="smoke", wait_lease=text), NOW)


def test_how_many_phones_measure_and_are_sent_to_at_a_time() -> None:
    request = read_request(config(plan="smoke"), NOW)
    assert (request.max_parallel, request.push_slots) == (None, 1)
    request = read_request(config(plan="smoke", max_parallel="8", push_slots="2"), NOW)
    assert (request.max_parallel, request.push_slots) == (8, 2)


@pytest.mark.parametrize("text", ["0", "-1", "many", "2.5", "", "²", "99999"])
@pytest.mark.parametrize("flag", ["--max-parallel", "--push-slots"])
def test_a_number_of_phones_is_a_whole_number_above_zero(flag: str, text: str) -> None:
    dest = flag.removeprefix("--").replace("-", "_")
    with pytest.raises(ConfigError, match=f"{flag} {text}: it is a whole number from 1 to 10000: write it like 4"):
        read_request(config(plan="smoke", **{dest: text}), NOW)


def test_the_command_line_names_the_golden_set_and_the_plan_holds_its_questions(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[[ask]]\nquestion = "One?"\nexpect = "1"\n')
    request = read_request(config(plan="quick", golden=str(file)), NOW)
    assert [ask.question for ask in request.plan.golden.ask] == ["One?"]
    assert request.plan_values["golden"]["ask"][0]["question"] == "One?"
    assert len(read_request(config(plan="quick"), NOW).plan.golden.ask) >= 50
    assert read_request(config(plan="quick", golden="none"), NOW).plan.golden.ask == []


def test_a_resumed_run_asks_what_it_asked_though_the_file_is_gone(tmp_path: Path) -> None:
    ask = {"question": "One?", "expect": "1", "max_tokens": 4}
    begun = head(find_model("tiny-llama"), golden={"set": str(tmp_path / "gone.toml"), "ask": [ask]})
    assert [each.question for each in read_request(config(), NOW, begun).plan.golden.ask] == ["One?"]


def test_a_golden_set_needs_phones_to_ask() -> None:
    assert needs_devices(config(golden="general")) == "--golden"
    assert join_values(["--golden", "mine.toml"]) == ["--golden=mine.toml"]


def test_two_builds_and_one_build_are_not_both_wanted() -> None:
    ours = str(default_bundle().folder.root)
    with pytest.raises(ConfigError, match="--ab and --bundle: --ab names both builds: leave out --bundle"):
        read_request(config(ab=f"{ours},{ours}", bundle=ours), NOW)
    request = read_request(config(ab=f"{ours},{ours}"), NOW)
    assert request.ab is not None
    assert (request.bundle, request.more_bundles, request.builds) == (request.ab.a, (), 1)
    assert needs_devices(config(ab="a,b")) == "--ab"
