"""The rungs on which the engine runs, with a session that returns the records it is told to."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from harness.bench.context import RunContext
from harness.core.reasons import Reason
from harness.diagnose import rungs
from harness.diagnose.asked import Request, Sizes
from harness.diagnose.engine import Engine
from harness.diagnose.rung import Outcome, State, broke
from harness.diagnose.setting import Setting, Shape, plan_of
from harness.diagnose.subject import Subject
from harness.payload.bundle import default_bundle
from harness.payload.models import find_model, read_model
from harness.plan.matrix import PlannedCell
from harness.store.schema import CellRecord

HELLO = {"event": "hello", "runner": "farm_runner", "engine": "MNN", "engine_version": "3.6.1"}
LOAD = {"event": "load", "load_ms": 12.5, "backend_requested": "cpu", "threads": 1, "precision": "low", "memory": "low"}


@dataclass
class FakeSession:
    """Answers each cell with the record that ``answer`` makes for it."""

    context: RunContext
    answer: Callable[[PlannedCell], CellRecord]
    gone: None = None
    ran: list[PlannedCell] = field(default_factory=list)

    def run_cell(self, cell: PlannedCell) -> CellRecord:
        self.ran.append(cell)
        return self.answer(cell)


Climber = Callable[..., tuple[Engine, FakeSession]]


@pytest.fixture
def climber(bench: ModuleType, records: ModuleType, tmp_path: Path) -> Climber:
    """An engine on a phone of eight cores, whose cells end as the answers say, one after the other."""
    model = read_model(find_model("tiny-llama"))

    def make(
        *answers: dict[str, Any],
        cores: int = 8,
        made_by: str = "3.6.1",
        ground: Callable[[], Outcome | None] = lambda: None,
        **asked: Any,
    ) -> tuple[Engine, FakeSession]:
        request = Request("phone", find_model("tiny-llama"), "tiny-llama", **asked)
        subject = Subject(request, "diagnose-1", tmp_path, lambda _: None)
        plan, _ = plan_of(Setting(), Shape(16, 20.0), model.name)
        left = list(answers)

        def answer(cell: PlannedCell) -> CellRecord:
            values = dict(left.pop(0) if len(left) > 1 else left[0])
            made: CellRecord = records.record(backend=cell.backend, threads=cell.threads, **values)
            return made

        subject.model = replace(model, engine_version=made_by)
        subject.bundle = default_bundle()
        context = RunContext("diagnose-1", tmp_path, plan, default_bundle(), {model.name: model})
        session = FakeSession(context, answer)
        subject.phone = SimpleNamespace(facts=bench.facts(cores=cores), tier="high")  # type: ignore[assignment]
        subject.session = session  # type: ignore[assignment]
        return Engine(subject, ground), session

    return make


def raw(folder: Path, *events: dict[str, Any]) -> str:
    """A raw folder with these events on stdout; returns its name."""
    place = folder / "raw" / "cell" / "1"
    place.mkdir(parents=True)
    (place / "stdout").write_text("".join(f"{json.dumps(event)}\n" for event in events))
    return "raw/cell/1/"


def ended(outcome: Outcome) -> tuple[str, str | None]:
    return outcome.state.value, outcome.reason.code if outcome.reason is not None else None


def failed(reason: Reason, **more: Any) -> dict[str, Any]:
    return {"reason": reason, "detail": "what was seen", **more}


def test_a_model_that_loads_and_answers_holds_two_rungs_by_one_run(climber: Climber) -> None:
    engine, session = climber({})
    assert ended(engine.loads()) == ("held", None)
    assert ended(engine.first_token_comes()) == ("held", None)
    [cell] = session.ran
    assert (cell.threads, cell.prompt_tokens, cell.generate_tokens) == (1, 4, 4)


@pytest.mark.parametrize(
    ("events", "reason", "rung", "word"),
    [
        ((HELLO,), Reason.HANG, "load", "the model was not loaded"),
        ((HELLO, LOAD), Reason.HANG, "token", "the model was loaded, no answer was finished"),
        ((), Reason.HANG, "load", "it had not said a word"),
        ((HELLO,), Reason.CRASH, "load", "the program had started, the model was not loaded"),
        ((HELLO, LOAD), Reason.ILLEGAL_INSTRUCTION, "token", "no answer was finished"),
        ((HELLO, LOAD), Reason.LOAD_ERROR, "load", ""),
        ((HELLO,), Reason.OUT_OF_MEMORY, "load", ""),
        ((HELLO, LOAD), Reason.UNPARSED_OUTPUT, "token", ""),
    ],
)
def test_what_the_runner_said_last_tells_whether_loading_or_computing_broke(
    climber: Climber, tmp_path: Path, events: tuple[dict[str, Any], ...], reason: Reason, rung: str, word: str
) -> None:
    engine, session = climber(failed(reason, measured=False, raw=raw(tmp_path, *events)))
    first = engine.loads()
    broken = first if rung == "load" else engine.first_token_comes()
    assert ended(broken) == ("broke", reason.code)
    assert (first.state is State.HELD) == (rung == "token")
    assert word in broken.detail
    assert len(session.ran) == 1
    assert engine.failed_of(rungs.LOAD if rung == "load" else rungs.TOKEN) is not None


def test_a_few_tokens_that_are_no_text_are_left_to_the_next_rung(climber: Climber) -> None:
    engine, _ = climber(failed(Reason.OUTPUT_DEGENERATE))
    engine.loads()
    assert ended(engine.first_token_comes()) == ("held", None)
    assert ended(engine.text_is_right()) == ("broke", "output_degenerate")


def test_a_text_that_nothing_was_compared_with_is_not_called_right(climber: Climber, records: ModuleType) -> None:
    output = records.record().output.model_dump() | {"match": None, "reference": None, "matched_tokens": None}
    nulls = records.record().nulls | dict.fromkeys(("match", "reference", "matched_tokens"), "MNN is not here")
    engine, _ = climber({"output": output, "nulls": nulls})
    outcome = engine.text_is_right()
    assert ended(outcome) == ("not checkable", None)
    assert "MNN is not here" in outcome.detail


def test_all_threads_are_as_many_as_the_phone_has_cores(climber: Climber) -> None:
    engine, session = climber({})
    assert ended(engine.all_threads()) == ("held", None)
    assert session.ran[0].threads == 8
    alone, _ = climber({}, cores=1)
    assert alone.all_threads().state is State.UNKNOWN


def test_all_threads_that_are_slower_than_one_are_told_so(climber: Climber) -> None:
    engine, _ = climber({"tps": 50.0}, {"tps": 12.0})
    assert ended(engine.text_is_right()) == ("held", None)
    outcome = engine.all_threads()
    assert ended(outcome) == ("held", None)
    assert outcome.detail.endswith(
        "slower than 1 thread, 50.0 tok/s: slow cores hold the fast ones up, take fewer threads"
    )
    faster, _ = climber({"tps": 50.0}, {"tps": 90.0})
    faster.text_is_right()
    assert "slower" not in faster.all_threads().detail


def test_a_figure_that_is_spoilt_breaks_no_rung(climber: Climber) -> None:
    engine, _ = climber(failed(Reason.THROTTLED))
    outcome = engine.all_threads()
    assert ended(outcome) == ("held", None)
    assert "throttled: what was seen" in outcome.detail


def test_a_phone_that_throttled_before_breaks_the_last_rung_though_its_speed_falls_no_further(climber: Climber) -> None:
    engine, _ = climber(failed(Reason.THROTTLED), {})
    engine.all_threads()
    assert ended(engine.goes_on()) == ("broke", "throttled")


def test_a_sustained_run_that_throttles_breaks_and_says_when_and_by_how_much(
    climber: Climber, records: ModuleType
) -> None:
    thermal = records.record().thermal.model_dump() | {
        "throttled": True,
        "onset_s": 4.2,
        "burst_tps": 40.0,
        "sustained_tps": 16.0,
        "clock_ratio_min": 0.4,
        "judged_by": "speed, clocks",
    }
    engine, session = climber({"thermal": thermal})
    outcome = engine.goes_on()
    assert ended(outcome) == ("broke", "throttled")
    assert outcome.detail == (
        "it throttled after 4.2 s: 40.0 tok/s before, 16.0 in the end, clocks down to 40% (judged by speed, clocks)"
    )
    assert session.context.plan.kind == "sustained"


@pytest.mark.parametrize(("cap", "state"), [(0.47, "broke"), (0.8, "held"), (None, "held")])
def test_a_phone_whose_clocks_are_capped_from_the_first_is_throttled_though_it_gets_no_slower(
    climber: Climber, records: ModuleType, cap: float | None, state: str
) -> None:
    thermal = records.record().thermal.model_dump() | {"clock_ratio_min": cap}
    nulls = records.record().nulls | {"clock_ratio_min": "no clock is readable"}
    engine, _ = climber({"thermal": thermal, "nulls": nulls})
    assert engine.goes_on().state.value == state


@pytest.mark.parametrize(
    ("asked", "reason", "state"),
    [
        ({}, Reason.BACKEND_MISSING_ON_PHONE, "not checkable"),
        ({"bundle_word": "mine"}, Reason.BACKEND_MISSING_ON_PHONE, "broke"),
        ({"bundle_word": "mine"}, Reason.BACKEND_NOT_BUILT, "not checkable"),
        ({"backends": ("opencl",)}, Reason.BACKEND_NOT_BUILT, "broke"),
        ({"backends": ("opencl",)}, Reason.BACKEND_MISSING_ON_PHONE, "broke"),
        ({}, Reason.BACKEND_FALLBACK, "broke"),
    ],
)
def test_a_gpu_that_is_not_there_breaks_only_what_somebody_asked_for(
    climber: Climber, asked: dict[str, Any], reason: Reason, state: str
) -> None:
    engine, session = climber(failed(reason, measured=False), **asked)
    assert engine.gpu("opencl")().state.value == state
    assert session.ran[0].backend == "opencl"


def test_a_long_prompt_is_as_long_as_the_model_can_hold(climber: Climber) -> None:
    engine, session = climber({}, sizes=Sizes(long_prompt=300))
    assert ended(engine.long_prompt()) == ("held", None)
    assert session.ran[0].prompt_tokens == 300
    short, _ = climber({}, sizes=Sizes(long_prompt=32))
    assert short.long_prompt().state is State.UNKNOWN


def test_known_causes_of_the_record_come_with_their_evidence_and_advice(climber: Climber) -> None:
    finding = {
        "code": "out_of_memory",
        "severity": "info",
        "title": "killed",
        "evidence": "phone's log: Kill 'x'",
        "advice": "Use a smaller model.",
        "cause": "lmkd killed it.",
    }
    engine, _ = climber(failed(Reason.OUT_OF_MEMORY, measured=False, findings=(finding,)))
    outcome = engine.loads()
    assert (outcome.code, outcome.cause, outcome.advice) == (
        "out_of_memory",
        "lmkd killed it.",
        ("Use a smaller model.",),
    )
    assert outcome.evidence == ("phone's log: Kill 'x'",)


def test_what_the_raw_output_shows_is_explained_by_the_rules_of_triage(climber: Climber, tmp_path: Path) -> None:
    name = raw(tmp_path, HELLO)
    (tmp_path / name / "stderr").write_text("Can't Find type=3 backend, use 0 instead\n")
    engine, _ = climber(failed(Reason.BACKEND_FALLBACK, raw=name))
    assert engine.gpu("opencl")().code == "backend_fallback"


def test_what_a_runner_cannot_be_asked_for_breaks_no_rung(climber: Climber) -> None:
    engine, _ = climber(failed(Reason.BAD_PLAN, measured=False))
    assert ended(engine.goes_on()) == ("not checkable", None)
    assert engine.failed_of(rungs.SUSTAINED) is None


def test_a_workaround_is_tried_in_the_shape_of_what_failed_and_spoilt_figures_do(climber: Climber) -> None:
    engine, session = climber(failed(Reason.CRASH), failed(Reason.THROTTLED), failed(Reason.CRASH))
    engine.all_threads()
    ran = engine.failed_of(rungs.THREADS)
    assert ran is not None
    trial = engine.works(ran)
    assert trial(Setting(threads=2, prompt_tokens=32))
    assert not trial(Setting(threads=3, prompt_tokens=32))
    assert [cell.threads for cell in session.ran] == [8, 2, 3]
    assert {cell.generate_tokens for cell in session.ran} == {16}


def test_a_model_of_a_newer_engine_that_does_not_load_is_told_so_and_how_to_mend_it(climber: Climber) -> None:
    engine, _ = climber(failed(Reason.LOAD_ERROR, measured=False), made_by="99.1.0")
    outcome = engine.loads()
    assert (ended(outcome), outcome.code) == (("broke", "load_error"), "model_engine_version_mismatch")
    says = "the graph was written by MNN 99.1.0, and the engine is 3.6.1"
    assert outcome.cause == f"The engine may be too old for the model: {says}."
    assert outcome.advice[0] == "take device binaries of MNN 99.1.0 or newer, or export the model with MNN 3.6.1"


def test_a_setting_that_answered_once_is_not_known_to_generate_without_a_pause(climber: Climber) -> None:
    engine, _ = climber({}, {}, failed(Reason.ILLEGAL_INSTRUCTION))
    engine.text_is_right()
    engine.all_threads()
    engine.goes_on()
    ran = engine.failed_of(rungs.SUSTAINED)
    assert ran is not None
    assert engine.held_like(ran) == {}
    once = replace(ran, shape=Shape(16, 99.0))
    assert [setting.threads for setting in engine.held_like(once)] == [1, 8]


FULL = broke(Reason.NO_SPACE, "No space left on device", advice=("Make room.",))


@pytest.mark.parametrize("reason", [Reason.LEASE_LOST, Reason.HARNESS_ERROR, Reason.ENGINE_ERROR])
def test_a_storage_that_filled_amid_a_run_is_the_fault_and_no_setting_is_tried(
    climber: Climber, reason: Reason
) -> None:
    engine, _ = climber(failed(reason, measured=False), ground=lambda: FULL)
    outcome = engine.goes_on()
    assert (ended(outcome), outcome.advice) == (("broke", "no_space"), ("Make room.",))
    assert outcome.detail == f"No space left on device; with that {reason.code}: what was seen"
    assert outcome.record is not None
    assert engine.failed_of(rungs.SUSTAINED) is None


@pytest.mark.parametrize("reason", [Reason.DEVICE_LOST, Reason.BACKEND_NOT_BUILT])
def test_below_nothing_is_looked_at_where_the_phone_is_gone_or_nothing_ran(climber: Climber, reason: Reason) -> None:
    engine, _ = climber(failed(reason, measured=False), ground=lambda: FULL)
    assert FULL.detail not in engine.gpu("opencl")().detail


@pytest.mark.parametrize(
    ("printed", "seen"),
    [
        (b"", "stdout is empty"),
        (b"ok\nno account\n", "stdout ends with: no account"),
        (b"\xff\xfe\x00", "stdout, 3 bytes, ends with what is no text: ff fe 00"),
    ],
)
def test_what_a_program_printed_in_place_of_an_account_is_shown(
    climber: Climber, tmp_path: Path, printed: bytes, seen: str
) -> None:
    name = raw(tmp_path)
    (tmp_path / name / "stdout").write_bytes(printed)
    engine, _ = climber(failed(Reason.UNPARSED_OUTPUT, measured=False, raw=name))
    assert engine.loads().evidence == (seen,)


def test_a_speed_that_fell_for_no_reason_of_heat_is_told_on_the_last_rung(climber: Climber) -> None:
    fell = {"code": "speed", "severity": "info", "title": "speed fell by 67% while clocks were steady", "evidence": ""}
    engine, _ = climber({"findings": (fell,)})
    outcome = engine.goes_on()
    assert outcome.state is State.HELD
    assert outcome.detail.endswith("; speed fell by 67% while clocks were steady")


@pytest.mark.parametrize(
    ("stderr", "seen"), [("no such op\n", "stderr ends with: no such op"), ("", "stdout ends with: hi")]
)
def test_an_engine_that_gives_up_without_an_account_is_quoted(
    climber: Climber, tmp_path: Path, stderr: str, seen: str
) -> None:
    name = raw(tmp_path)
    (tmp_path / name / "stdout").write_text("hi\n")
    (tmp_path / name / "stderr").write_text(stderr)
    engine, _ = climber(failed(Reason.ENGINE_ERROR, measured=False, raw=name))
    assert engine.loads().evidence == (seen,)
