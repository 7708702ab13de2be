"""A run folder that was begun before, gone on with on phones that exist only here."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import harness
from harness.core.errors import ConfigError
from harness.fleet.opening import Fleet
from harness.payload.bundle import default_bundle
from harness.payload.bundle_manifest import Target
from harness.payload.folder import PayloadFile, PayloadFolder
from harness.payload.models import ModelFolder
from harness.phone.tier import Placement
from harness.plan.model import Plan
from harness.plugin.options import Again, Request
from harness.plugin.resume import Begun
from harness.plugin.run import Run, begin, cell_ids, describe_dry_run
from harness.store.head import LeftOut, RunInfo
from harness.store.resume import Choice
from harness.store.schema import PhoneInfo

MODEL = ModelFolder("toy", PayloadFolder(Path("/toy"), (PayloadFile("llm.mnn", 1, "m"),)), 80_000_000, 4)
REQUEST = Request(
    "mine",
    Plan.model_validate({"models": ["toy"], "backends": ["cpu"], "threads": [1, 2]}),
    {"toy": MODEL},
    default_bundle(),
)


def phone(name: str) -> Any:
    info = PhoneInfo(
        id=f"id-of-{name}", serial=name, name=name, model=None, soc=None, tier="mid", fingerprint=None, boot_id=None,
        driver=None,
    )  # fmt: skip
    facts = SimpleNamespace(
        as_dict=dict, nulls={}, model=None, cpu_clusters=(), core_max_khz={},
        abis=(), cpu_features=(), sdk=None, page_size=None, python_mnn=None,
    )  # fmt: skip
    endpoint = SimpleNamespace(provider="adb", contention_group="")
    identity = SimpleNamespace(id=info.id)
    return SimpleNamespace(
        name=name,
        info=info,
        facts=facts,
        endpoint=endpoint,
        identity=identity,
        nulls={},
        tier="mid",
        placement=Placement("mid", "rule 2 (mid) fits", 2),
    )


def fleet(*names: str, left_out: tuple[str, ...] = ()) -> Fleet:
    made = Fleet(phones=[cast("Any", phone(name)) for name in names])
    made.left_out += [LeftOut(name=name, reason="offline") for name in left_out]
    return made


def append(run: Run, cell_id: str, reason: str | None, verdict: str, fault: str | None) -> None:
    """Write a record of which only the verdict matters: nothing was run."""
    phone_id = next(id_ for id_ in run.members if cell_id in cell_ids(REQUEST, id_, Target()))
    unknown = "backend metrics thermal output raw server version model soc fingerprint boot_id driver"
    values: dict[str, Any] = {
        "schema": 1, "record": "cell", "run_id": "r", "cell_id": cell_id, "attempt": 1,
        "started": "2026-01-01T00:00:00Z", "elapsed_s": 0, "harness_version": "0",
        "adb": {"server": None, "version": None},
        "phone": phone(phone_id.removeprefix("id-of-")).info.model_dump(),
        "model": {"name": "toy", "hash": MODEL.folder.hash, "weight_bytes": 1, "quant_bits": 4},
        "bundle": {"name": "b", "hash": REQUEST.bundle.hash, "engine": "MNN", "engine_version": "1", "runner": "r"},
        "config": {
            "kind": "burst", "backend": "cpu", "threads": 1, "precision": "low", "memory": "low", "prompt_hash": "h",
            "prompt_tokens": 1, "generate_tokens": 2, "context_tokens": 0, "warmups": 0, "repeats": 1,
        },
        "verdict": verdict, "reason": reason, "fault": fault, "backend": None, "metrics": None, "thermal": None,
        "output": None, "nulls": dict.fromkeys(unknown.split(), "made up"), "raw": None,
    }  # fmt: skip
    with run.folder.results.open("a") as file:
        file.write(json.dumps(values) + "\n")


@pytest.fixture
def first(tmp_path: Path) -> Run:
    """A run on two phones; one of `a` has a final record, one a record of the lab's fault, `b` has none."""
    run = begin(REQUEST, fleet("a", "b"), tmp_path / "run", tmp_path, ["pytest", "--devices", "all"])
    one, two = cell_ids(REQUEST, "id-of-a", Target())
    append(run, one, "crash", "failed", "product")
    append(run, two, "device_lost", "failed", "infra")
    return run


def again(run: Run, *, unfinished: bool = True, rerun: tuple[str, ...] = ()) -> Begun:
    return Begun.open(Again(run.folder.path, unfinished, Choice.parse(rerun)))


def todo(run: Run) -> list[tuple[str, int]]:
    return [(bound.phone, bound.cell.threads) for bound in run.cells]


def test_a_process_that_runs_all_phones_gives_each_its_first_figure_first(first: Run) -> None:
    assert todo(first) == [("a", 1), ("b", 1), ("a", 2), ("b", 2)]
    assert [bound.cell_id for bound in first.cells[::2]] == cell_ids(REQUEST, "id-of-a", Target())


def test_the_head_tells_what_was_run_with(first: Run) -> None:
    head = first.folder.read_info()
    assert head.models["toy"].hash == MODEL.folder.hash
    assert head.models["toy"].folder == "/toy"
    assert head.bundle is not None
    assert head.bundle.hash == default_bundle().hash


def test_what_has_a_final_record_is_not_done_again(first: Run) -> None:
    begun = again(first)
    begun.check(REQUEST)
    run = begun.go_on(REQUEST, fleet("a", "b"), ["pytest", "--resume"])
    assert todo(run) == [("b", 1), ("a", 2), ("b", 2)]
    assert run.context.run_id == first.context.run_id
    assert [bound.cell_id for bound in run.planned] == [bound.cell_id for bound in first.planned]
    assert run.busy_phones == ["a", "b"]
    assert run.notes == (f"run {first.context.run_id}: 3 of 4 cells of these phones were to be done",)
    assert run.unfinished(run.folder.latest()) == 3


def test_what_others_did_while_this_one_waited_for_a_phone_is_not_done_twice(first: Run) -> None:
    waiting = again(first)
    append(first, cell_ids(REQUEST, "id-of-b", Target())[0], "crash", "failed", "product")
    assert todo(waiting.go_on(REQUEST, fleet("b"), [])) == [("b", 2)]


def test_rerun_alone_does_what_it_picks_final_or_not(first: Run) -> None:
    run = again(first, unfinished=False, rerun=("reason=crash",)).go_on(REQUEST, fleet("a", "b"), [])
    assert todo(run) == [("a", 1)]
    assert run.busy_phones == ["a"]
    run = again(first, unfinished=False, rerun=("verdict=rejected",)).go_on(REQUEST, fleet("a", "b"), [])
    assert todo(run) == []
    assert run.notes == (f"run {first.context.run_id}: no cell was chosen on these phones, no cell was run",)


def test_the_head_keeps_every_start_and_every_phone(first: Run) -> None:
    begun = again(first)
    run = begun.go_on(REQUEST, fleet("c", "a", left_out=("d",)), ["pytest", "--resume"])
    head = run.folder.read_info()
    assert [member.phone.name for member in head.fleet] == ["a", "b", "c"]
    assert run.members == ("id-of-a", "id-of-b", "id-of-c")
    assert head.cells == 6
    assert head.command == ("pytest", "--devices", "all")
    [resumption] = head.resumptions
    assert resumption.phones == ("c", "a")
    assert resumption.command == ("pytest", "--resume")
    assert resumption.harness_version == harness.__version__
    assert [(left.name, left.reason) for left in head.still_left_out] == [
        ("d", "offline"),
        ("b", "not here: 2 cells unfinished"),
    ]
    assert todo(run) == [("c", 1), ("c", 2), ("a", 2)]
    assert "not here: b: 2 cells unfinished" in run.notes


def test_a_phone_that_is_not_here_and_has_nothing_left_is_not_missed(first: Run) -> None:
    for cell_id in cell_ids(REQUEST, "id-of-b", Target()):
        append(first, cell_id, "model_too_big", "unsupported", "product")
    assert again(first).not_here(REQUEST, fleet("a").phones) == {}
    assert again(first).not_here(REQUEST, fleet("b").phones) == {"a": 1}


def test_another_version_is_noted_and_not_refused(first: Run) -> None:
    first.folder.update_info(lambda info: info.model_copy(update={"harness_version": "0.0.0"}))
    begun = again(first)
    begun.check(REQUEST)
    notes = begun.go_on(REQUEST, fleet("a"), []).notes
    assert f"run {first.context.run_id} was begun by mnn-farm 0.0.0, this is {harness.__version__}" in notes


def test_another_plan_or_other_ids_are_refused_before_anything_is_written(first: Run) -> None:
    before = (first.folder.path / "run.json").read_bytes()
    other = Request("mine", REQUEST.plan.model_copy(update={"threads": [1]}), REQUEST.models, REQUEST.bundle)
    with pytest.raises(ConfigError, match=r"threads was \[1, 2\] and is \[1\]"):
        again(first).check(other)
    with first.folder.results.open("a") as file:
        line = first.folder.results.read_text().splitlines()[0]
        file.write(line.replace(cell_ids(REQUEST, "id-of-a", Target())[0], "f" * 64) + "\n")
    with pytest.raises(ConfigError, match="finish it with the version that began it"):
        again(first).check(REQUEST)
    assert (first.folder.path / "run.json").read_bytes() == before


def test_what_plans_could_not_say_when_the_run_was_begun_is_no_difference(first: Run) -> None:
    def older(info: RunInfo) -> RunInfo:
        return info.model_copy(update={"plan": {key: info.plan[key] for key in ("models", "backends", "threads")}})

    first.folder.update_info(older)
    again(first).check(REQUEST)


def test_what_is_no_run_is_one_sentence(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(ConfigError, match=r"is not a run folder \(it has no run\.json\)"):
            Begun.open(Again(path, True, Choice()))


def test_a_dry_run_shows_what_was_done_before(first: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.plugin.run.ruled_out", lambda *_: None)
    lines = list(describe_dry_run(REQUEST, fleet("a").phones, again(first).is_left))
    assert [line.split("  ")[-1] for line in lines[1:3]] == ["done before", "about 4 s"]


def test_a_torn_last_line_costs_only_itself(first: Run) -> None:
    with first.folder.results.open("a") as file:
        file.write('{"schema":1,"record":"cell","run_id":"r","cell_id":"' + cell_ids(REQUEST, "id-of-b", Target())[0])
    begun = again(first)
    begun.check(REQUEST)
    assert len(begun.records) == 2
