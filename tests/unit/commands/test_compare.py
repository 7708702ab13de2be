"""``mnn-farm compare``: its table, its documents, its exit status, and measuring again what got worse."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from harness.cli import app
from harness.commands import compare_verify
from harness.commands.compare import read_share
from harness.commands.compare_verify import as_toml
from harness.core.errors import ConfigError
from harness.core.reasons import Reason
from harness.core.toml import read_toml
from harness.payload.bundle import default_bundle
from harness.payload.models import find_model, read_model
from harness.plan.load import load_plan
from harness.plan.model import Plan
from harness.store.head import SecondBuild, Source
from harness.store.runfolder import RunFolder
from harness.store.schema import CellRecord

REPORT = Path(__file__).parents[1] / "report"


def farm(*args: object) -> Result:
    return CliRunner().invoke(app, ["compare", *map(str, args)])


@pytest.fixture(scope="module")
def make(load_module: Callable[[Path], ModuleType]) -> ModuleType:
    return load_module(REPORT / "factory.py")


@pytest.fixture(scope="module")
def measured(load_module: Callable[[Path], ModuleType], make: ModuleType) -> Callable[..., CellRecord]:
    kit = load_module(REPORT / "test_compare.py")
    return lambda *args, **over: kit.measured(make, *args, **over)


@pytest.fixture
def runs(make: ModuleType, measured: Callable[..., CellRecord], tmp_path: Path) -> Callable[..., tuple[Path, Path]]:
    """Make a base run at 50 tok/s and a new one, as given, of a model and a build that are here."""

    def made(*new: CellRecord, head: dict[str, Any] | None = None) -> tuple[Path, Path]:
        model, ours = read_model(find_model("tiny-llama")), default_bundle()
        plan = Plan.model_validate({"models": ["tiny-llama"], "backends": ["cpu"], "threads": [1]})
        over = {
            "plan": plan.model_dump(mode="json", by_alias=True),
            "models": {"tiny-llama": Source(name="tiny-llama", hash="m" * 64, folder=str(model.folder.root))},
            "bundle": Source(name="python", hash=ours.hash, folder=str(ours.folder.root)),
            **(head or {}),
        }
        base = make.run_folder(tmp_path / "base", make.info("atlas", **over), [with_build(measured(), ours.hash)])
        records = [with_build(record, ours.hash) for record in new]
        return base, make.run_folder(tmp_path / "new", make.info("atlas", **over), records)

    return made


def with_build(record: CellRecord, build: str) -> CellRecord:
    return record.model_copy(update={"bundle": record.bundle.model_copy(update={"hash": build})})


def test_a_slower_run_ends_with_1_and_says_by_how_much(
    runs: Callable[..., tuple[Path, Path]], measured: Callable[..., CellRecord]
) -> None:
    said = farm(*runs(measured(tps=45)))
    assert said.exit_code == 1
    row = next(line.split() for line in said.output.splitlines() if "decode" in line)
    assert " ".join(row[row.index("decode") :]) == "decode 50.0 tok/s 45.0 tok/s -10.0 % (-10.4 to -9.6) slower"
    assert "1 cell compared: 1 worse" in said.output


def test_the_same_run_again_ends_with_0(
    runs: Callable[..., tuple[Path, Path]], measured: Callable[..., CellRecord]
) -> None:
    said = farm(*runs(measured(tps=50.1)))
    assert said.exit_code == 0
    assert "1 cell compared: 1 without a change beyond 3 %" in said.output


def test_the_bound_decides_what_is_a_change(
    runs: Callable[..., tuple[Path, Path]], measured: Callable[..., CellRecord]
) -> None:
    both = runs(measured(tps=45))
    assert farm(*both, "--bound", "20%").exit_code == 0
    assert farm(*both, "--bound=0.05").exit_code == 1


def test_json_is_one_document_and_markdown_goes_to_its_file(
    runs: Callable[..., tuple[Path, Path]], measured: Callable[..., CellRecord], tmp_path: Path
) -> None:
    said = farm(*runs(measured(tps=45), measured(threads=9)), "--json", "--out", tmp_path / "change.md")
    told = json.loads(said.output)
    assert (told["regression"], len(told["cells"]), told["not_compared"][0]["side"]) == (True, 1, "new")
    assert told["cells"][0]["figures"][0] | {"ci95": None} == {
        "name": "decode_tps", "base": 50.0, "new": 45.0, "shown": ["50.0 tok/s", "45.0 tok/s"], "verdict": "slower",
        "words": "slower", "ratio": pytest.approx(0.9), "ci95": None, "more_repeats": None, "why": "", "note": "",
    }  # fmt: skip
    assert (tmp_path / "change.md").read_text().startswith("## 🔴 1 cell compared: 1 worse; 1 cell not compared\n")


def test_results_jsonl_names_its_run_and_a_broken_cell_is_named_with_its_reason(
    runs: Callable[..., tuple[Path, Path]], measured: Callable[..., CellRecord]
) -> None:
    base, new = runs(measured(reason=Reason.CRASH))
    said = farm(base / "results.jsonl", new / "results.jsonl")
    assert said.exit_code == 1
    assert "broken: ok → crash" in said.output


def test_history_is_told(runs: Callable[..., tuple[Path, Path]], measured: Callable[..., CellRecord]) -> None:
    base, new = runs(measured(tps=50))
    said = farm(base, new, "--history", base, "--history", new)
    assert "the history says of the spread between runs: nothing, too few cells are in several" in said.output


@pytest.mark.parametrize("text", ["0", "1", "-3%", "100%", "three", "nan", ""])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"it is no share between 0 and 1: write it like 3% or 0\.03"):
        read_share("--bound", text)


def test_usage_errors_are_one_sentence(
    runs: Callable[..., tuple[Path, Path]], measured: Callable[..., CellRecord], tmp_path: Path
) -> None:
    base, new = runs(measured())
    for words, sentence in (
        ((base,), "is a run of one build: there is nothing to compare it with"),
        ((base, tmp_path / "none"), "is not a run folder"),
        ((base, new, "--out", tmp_path / "no" / "where.md"), "cannot be written"),
    ):
        error = farm(*words).exception
        assert isinstance(error, ConfigError)
        assert sentence in str(error)


class Again:
    """Takes the place of pytest: notes how it was called, and leaves the run that it is told to."""

    def __init__(self, leave: Callable[[Path], object] | None = None, status: int = 0, said: str = "") -> None:
        self.calls: list[list[str]] = []
        self._leave, self._status, self._said = leave, status, said

    def __call__(self, argv: list[str], patience_s: float) -> tuple[int, str]:
        self.calls.append(argv)
        # One turn of the plan's ten minutes at the least, and no more than a night.
        assert 600 < patience_s < 8 * 3600
        if self._leave is not None:
            self._leave(Path(self.after("--run-dir")))
        return self._status, self._said

    def after(self, word: str) -> str:
        return self.calls[0][self.calls[0].index(word) + 1]


def run_again(monkeypatch: pytest.MonkeyPatch, again: Again) -> None:
    monkeypatch.setattr(compare_verify, "run_pytest", again)
    monkeypatch.setattr(compare_verify, "find_phone", lambda phone, adb: f"now-{phone.name}")


@pytest.mark.parametrize(
    ("tps", "status", "said"), [(44.5, 1, "slower (confirmed: "), (50.2, 0, "same"), (48.2, 1, "slower (unverified: ")]
)
def test_what_got_worse_is_measured_again_before_it_is_called_a_regression(
    runs: Callable[..., tuple[Path, Path]], measured: Callable[..., CellRecord], make: ModuleType,
    monkeypatch: pytest.MonkeyPatch, tps: float, status: int, said: str,
) -> None:  # fmt: skip
    base, new = runs(measured(tps=45))
    again = Again(lambda path: make.run_folder(path, make.info("atlas"), [measured(tps=tps)]))
    run_again(monkeypatch, again)
    found = farm(base, new, "--verify", "--json", "--bound", "4%")
    told = json.loads(found.stdout)
    assert found.exit_code == status
    assert told["cells"][0]["check"] == {1: said.partition("(")[2].partition(":")[0], 0: "refuted"}[status]
    assert again.after("--devices") == "now-atlas"
    assert again.after("--bundle") == str(default_bundle().folder.root)
    assert Path(again.after("--run-dir")).name.startswith("new-verify-")


def test_both_builds_take_turns_where_both_are_here(
    runs: Callable[..., tuple[Path, Path]], measured: Callable[..., CellRecord], make: ModuleType, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    from harness.payload.bundle import read_bundle

    shutil.copytree(default_bundle().folder.root / "synthetic", tmp_path / "old")
    old = read_bundle(tmp_path / "old")
    base, new = runs(measured(tps=45))
    folder = RunFolder(base)
    source = Source(name="old", hash=old.hash, folder=str(tmp_path / "old"))
    folder.update_info(lambda info: info.model_copy(update={"bundle": source}))
    records = [with_build(record, old.hash) for record in folder.records()]
    folder.results.write_bytes(b"".join(record.to_json_line() for record in records))

    def turns(path: Path) -> None:
        of_turn = [("A", 50.0), ("B", 45.0), ("B", 45.1), ("A", 50.1), ("B", 45.2), ("A", 50.2), ("A", 50.0), ("B", 45)]
        made = [
            measured(tps=tps, cell_id=arm * 64, ab={"pair": "p", "arm": arm, "block": n, "blocks": 8})
            for n, (arm, tps) in enumerate(of_turn)
        ]
        make.run_folder(path, make.info("atlas"), made)

    again = Again(turns)
    run_again(monkeypatch, again)
    said = farm(base, new, "--verify")
    assert said.exit_code == 1
    assert "slower (confirmed" in said.output
    assert again.after("--ab") == f"{tmp_path / 'old'},{default_bundle().folder.root}"


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        ([], "the phone atlas is not here"),
        ([("id-of-birch", None)], "the phone atlas is not here"),
        ([("id-of-birch", None), ("id-of-atlas", "ada has it")], "the phone now-1 cannot be used: ada has it"),
    ],
)
def test_a_phone_that_is_not_here_leaves_the_regression_unverified_and_says_so(
    runs: Callable[..., tuple[Path, Path]], measured: Callable[..., CellRecord], monkeypatch: pytest.MonkeyPatch,
    seen: list[tuple[str, str | None]], why: str,
) -> None:  # fmt: skip
    there = [
        SimpleNamespace(id=phone_id, name=f"now-{place}", why=reason and SimpleNamespace(reason=reason))
        for place, (phone_id, reason) in enumerate(seen)
    ]
    monkeypatch.setattr(compare_verify, "list_phones", lambda _: SimpleNamespace(phones=there))
    monkeypatch.setattr(compare_verify, "look_at_all", lambda phones, *_: phones)
    said = farm(*runs(measured(tps=45)), "--verify", "--json")
    told = json.loads(said.stdout)["cells"][0]
    assert said.exit_code == 1
    assert (told["check"], told["checked"]) == ("unverified", why)


def test_a_phone_is_found_by_its_id_whatever_it_is_called_now(
    make: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = [SimpleNamespace(id=f"id-of-{name}", name=f"wlan:{name}", why=None) for name in ("birch", "atlas")]
    monkeypatch.setattr(compare_verify, "list_phones", lambda _: SimpleNamespace(phones=seen))
    monkeypatch.setattr(compare_verify, "look_at_all", lambda phones, *_: phones)
    assert compare_verify.find_phone(make.record("atlas").phone, None) == "wlan:atlas"


def test_what_pytest_refuses_is_told(
    runs: Callable[..., tuple[Path, Path]], measured: Callable[..., CellRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_again(monkeypatch, Again(status=4, said="ERROR: the plan asks for nonsense\n"))
    said = farm(*runs(measured(tps=45)), "--verify", "--json")
    told = json.loads(said.stdout)["cells"][0]
    assert said.exit_code == 1
    assert (told["check"], told["checked"]) == ("unverified", "ERROR: the plan asks for nonsense")


def test_another_phone_under_that_name_proves_nothing(
    runs: Callable[..., tuple[Path, Path]], measured: Callable[..., CellRecord], make: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    run_again(monkeypatch, Again(lambda path: make.run_folder(path, make.info("birch"), [measured("birch", tps=50)])))
    told = json.loads(farm(*runs(measured(tps=45)), "--verify", "--json").stdout)["cells"][0]
    assert (told["check"], told["checked"]) == ("unverified", "another phone than atlas answered")


@pytest.mark.parametrize(
    ("head", "why"),
    [
        ({"models": {}}, "the model tiny-llama is not here any more"),
        ({"bundle": None}, None),
        ({"fleet": ()}, None),
    ],
)
def test_what_is_gone_is_named(
    runs: Callable[..., tuple[Path, Path]], measured: Callable[..., CellRecord], make: ModuleType,
    monkeypatch: pytest.MonkeyPatch, head: dict[str, Any], why: str | None,
) -> None:  # fmt: skip
    again = Again(lambda path: make.run_folder(path, make.info("atlas"), [measured(tps=45)]))
    run_again(monkeypatch, again)
    told = json.loads(farm(*runs(measured(tps=45), head=head), "--verify", "--json").stdout)["cells"][0]
    if why is None:  # the build is the one that comes with mnn-farm, and the phone is known by its record
        assert told["check"] == "confirmed"
    else:
        assert (told["check"], told["checked"], again.calls) == ("unverified", why, [])


def test_nothing_is_measured_where_nothing_got_worse(
    runs: Callable[..., tuple[Path, Path]], measured: Callable[..., CellRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    again = Again()
    run_again(monkeypatch, again)
    assert farm(*runs(measured(tps=55)), "--verify").exit_code == 0
    assert again.calls == []


def test_a_plan_of_one_cell_is_read_back_as_it_was_meant(
    runs: Callable[..., tuple[Path, Path]], measured: Callable[..., CellRecord], make: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    again = Again(lambda path: make.run_folder(path, make.info("atlas"), [measured(tps=45)]))
    run_again(monkeypatch, again)
    base, new = runs(measured(tps=45))
    farm(base, new, "--verify")
    plan = load_plan(Path(again.after("--plan")))
    assert plan.models == [str(find_model("tiny-llama"))]
    assert (plan.threads, plan.prompt_tokens, plan.generate_tokens, plan.repeats) == ([1], [64], [32], 5)
    assert plan.golden.set == "none"


def test_a_plan_goes_through_toml_unchanged(tmp_path: Path) -> None:
    asked = 'What "is"\n\\ this\x7f? \u2028 ü'
    plan = Plan.model_validate(
        {
            "models": ["a"], "backends": ["cpu"], "threads": [1], "cool": {"below_c": 36.5}, "cv_limit": 0.05,
            "ask": [{"question": asked, "expect": "a+", "max_tokens": 3}], "engine": {"use_mmap": [True, False]},
        }
    )  # fmt: skip
    values = plan.model_dump(mode="json", by_alias=True)
    (tmp_path / "plan.toml").write_text(as_toml(values), encoding="utf-8")
    assert Plan.model_validate(read_toml(tmp_path / "plan.toml")) == plan


def test_the_second_build_of_a_run_with_ab_is_found(
    runs: Callable[..., tuple[Path, Path]], measured: Callable[..., CellRecord]
) -> None:
    ours = default_bundle()
    source = Source(name="other", hash="x" * 64, folder="/nowhere")
    second = SecondBuild(bundle=Source(name="p", hash=ours.hash, folder=str(ours.folder.root)), rounds=2)
    _, new = runs(measured(), head={"bundle": source, "ab": second})
    record = next(RunFolder(new).records())
    assert compare_verify._build(record, RunFolder(new).read_info()) == ours.folder.root


class Slow:
    """A process that does not end in time; ``stubborn``, not even when it is asked to."""

    def __init__(self, ends: type[BaseException] = subprocess.TimeoutExpired, *, stubborn: bool = False) -> None:
        self.told: list[str] = []
        self._ends = [ends("pytest", 1)] + [subprocess.TimeoutExpired("pytest", 1)] * stubborn

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        self.told.append("forever" if timeout is None else f"{timeout:g} s")
        if self._ends:
            raise self._ends.pop(0)
        return "", ""

    def terminate(self) -> None:
        self.told.append("terminate")

    def kill(self) -> None:
        self.told.append("kill")


@pytest.mark.parametrize(
    ("slow", "error", "told"),
    [
        (Slow(), compare_verify._NotHereError, ["5 s", "terminate", "120 s"]),
        (Slow(stubborn=True), compare_verify._NotHereError, ["5 s", "terminate", "120 s", "kill", "forever"]),
        (Slow(KeyboardInterrupt), KeyboardInterrupt, ["5 s", "120 s"]),
    ],
    ids=["too slow", "stubborn", "Ctrl-C"],
)
def test_however_it_ends_pytest_has_the_time_to_leave_the_phone(
    monkeypatch: pytest.MonkeyPatch, slow: Slow, error: type[BaseException], told: list[str]
) -> None:
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: slow)
    with pytest.raises(error):
        compare_verify.run_pytest(["pytest"], 5.0)
    assert slow.told == told


def test_what_pytest_says_on_either_stream_is_kept_with_its_status() -> None:
    ends = "import sys; print('done', file=sys.stderr); raise SystemExit(10)"
    assert compare_verify.run_pytest([sys.executable, "-c", ends], 60) == (10, "done\n")
