"""The reference of a cell: looked up, computed once, never the reason why a cell fails."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.bench import reference as subject
from harness.bench.context import RunContext
from harness.bench.match import Expected, Reference
from harness.bench.reference import Found, find_reference, query_of
from harness.bench.reference_store import Maker, ReferenceStore
from harness.core.deadline import Deadline
from harness.core.errors import HostError
from harness.payload.bundle import Bundle, BundleManifest, default_bundle
from harness.payload.folder import PayloadFile, PayloadFolder
from harness.payload.models import ModelFolder
from harness.plan.matrix import cells_of

MODEL = ModelFolder("toy", PayloadFolder(Path("/models/toy"), (PayloadFile("llm.mnn", 9, "m"),)), 9, 4)
SYNTHETIC = Bundle(
    BundleManifest(name="toy", runner="farm_runner", engine="synthetic", backends=["cpu"], program="p", files=["p"]),
    PayloadFolder(Path(), ()),
)


def text(*ids: int) -> Expected:
    return Expected(token_ids=ids, text=f"text of {ids}", finish="length")


class Engine:
    """Counts how often it computes; says `ids`, or fails with `error`."""

    def __init__(self, *ids: int, error: Exception | None = None) -> None:
        self.ids = ids or (1, 2, 3)
        self.error = error
        self.asked: list[Any] = []

    def __call__(self, query: Any, model: ModelFolder, deadline: Deadline) -> Reference:
        self.asked.append(query)
        if self.error is not None:
            raise self.error
        answers = tuple(text(9, n) for n, _ in enumerate(query.questions))
        return Reference(engine_version="3.6.1", timed=text(*self.ids), answers=answers)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ReferenceStore:
    monkeypatch.setenv("MNN_FARM_CACHE", str(tmp_path))
    monkeypatch.setattr(subject, "maker", lambda: Maker("3.6.1", "runner-1"))
    return ReferenceStore(tmp_path / "references")


@pytest.fixture
def find(make: ModuleType, here: ReferenceStore, tmp_path: Path) -> Callable[..., Found]:
    def go(engine: Engine, /, *, run: str = "r1", bundle: Bundle | None = None, **plan: Any) -> Found:
        chosen = make.plan(**{"reference": {"policy": "prefix"}, **plan})
        context = RunContext(run, tmp_path, chosen, bundle or default_bundle(), {"toy": MODEL})
        return find_reference(context, cells_of(chosen)[0], lambda _: None, engine)

    return go


def codes(found: Found) -> list[tuple[str, str]]:
    return [(finding.code, finding.severity) for finding in found.findings]


def test_it_is_computed_once_for_all_runs(find: Callable[..., Found]) -> None:
    engine = Engine(4, 5)
    first, again = find(engine), find(engine, run="r2")
    assert first == again
    assert first.reference is not None
    assert (first.reference.timed.token_ids, len(first.reference.answers), first.findings) == ((4, 5), 1, ())
    assert len(engine.asked) == 1


@pytest.mark.parametrize(
    ("over", "times"),
    [
        ({"threads": [1]}, 1),
        ({"repeats": 9, "warmups": 0}, 1),
        ({"engine": {"use_mmap": True, "power": "high"}}, 1),
        ({"backends": ["opencl"]}, 1),
        ({"engine": {"attention_mode": 10}}, 2),
        ({"engine": {"dynamic_option": 2}}, 2),
        ({"precision": ["high"]}, 2),
        ({"memory": ["high"]}, 2),
        ({"prompt_tokens": [9]}, 2),
        ({"generate_tokens": [33]}, 2),
        ({"context_tokens": [100]}, 2),
        ({"ask": [{"question": "Capital of Chile?", "expect": "."}]}, 2),
        ({"golden": {"set": "mine", "ask": [{"question": "1?", "expect": "."}]}}, 2),
    ],
)
def test_what_changes_the_text_is_another_reference(
    find: Callable[..., Found], over: dict[str, Any], times: int
) -> None:
    engine = Engine()
    find(engine)
    find(engine, **over)
    assert len(engine.asked) == times


@pytest.mark.parametrize("damage", [b"", b'{"run_id": "r1", "made', b"[]", b'{"run_id": 1}'])
def test_a_damaged_file_is_computed_anew(find: Callable[..., Found], here: ReferenceStore, damage: bytes) -> None:
    engine = Engine()
    find(engine)
    [file] = here.lock_file.parent.glob("*/*.json")
    file.write_bytes(damage)
    found = find(engine)
    assert found.reference is not None
    assert len(engine.asked) == 2
    assert find(engine) == found
    assert len(engine.asked) == 2


def test_several_that_want_it_at_once_compute_it_once(find: Callable[..., Found]) -> None:
    entered, go_on = threading.Event(), threading.Event()

    class Slow(Engine):
        def __call__(self, *args: Any) -> Reference:
            entered.set()
            assert go_on.wait(20)
            return super().__call__(*args)

    engine, found = Slow(), list[Found]()
    threads = [threading.Thread(target=lambda: found.append(find(engine))) for _ in range(3)]
    threads[0].start()
    assert entered.wait(20)
    for thread in threads[1:]:
        thread.start()
    go_on.set()
    for thread in threads:
        thread.join(20)
    assert len(found) == 3
    assert len(engine.asked) == 1


def test_that_it_cannot_be_had_is_a_warning_and_not_tried_again_in_the_same_run(find: Callable[..., Found]) -> None:
    engine = Engine(error=HostError("the runner crashed here (signal 11)"))
    found = find(engine)
    assert found.reference is None
    assert found.why == "there is no reference: the runner crashed here (signal 11)"
    assert codes(found) == [("no_reference", "warning")]
    assert find(engine) == found
    assert len(engine.asked) == 1
    engine.error = None
    assert find(engine, run="r2").reference is not None


def test_without_the_package_nothing_is_computed(find: Callable[..., Found], monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Maker:
        raise HostError("the Python package MNN is not installed here")

    monkeypatch.setattr(subject, "maker", missing)
    found = find(engine := Engine())
    assert (found.reference, codes(found), engine.asked) == (None, [("no_reference", "warning")], [])
    assert "MNN is not installed" in found.why


def test_a_cache_that_cannot_be_written_costs_only_the_comparison(
    find: Callable[..., Found], here: ReferenceStore
) -> None:
    here.lock_file.parent.write_text("in the way")
    found = find(Engine())
    assert found.reference is None
    assert codes(found) == [("no_reference", "warning")]


def test_nothing_is_computed_where_nothing_is_compared(find: Callable[..., Found]) -> None:
    engine = Engine()
    off = find(engine, reference={"policy": "prefix", "rules": [{"precision": "low", "policy": "off"}]})
    synthetic = find(engine, bundle=SYNTHETIC)
    assert off == Found(why="the plan compares with no reference")
    assert synthetic == Found(why="the synthetic engine runs no model: there is no reference")
    assert engine.asked == []


def test_another_engine_version_is_held_against_the_one_before(
    find: Callable[..., Found], monkeypatch: pytest.MonkeyPatch
) -> None:
    find(Engine(1, 2, 3))
    monkeypatch.setattr(subject, "maker", lambda: Maker("3.7.0", "runner-1"))
    changed = find(Engine(1, 8, 3), run="r2")
    [finding] = changed.findings
    assert (finding.code, finding.severity) == ("engine_changed_text", "warning")
    assert "engine 3.7.0 on this computer, and 3.6.1 before it, do not say the same: 1 of 2 texts" in finding.title
    assert "the timed prompt: token 2 is 8 instead of 2; it says 'text of (1, 8, 3)', before it said" in finding.title
    assert find(Engine(), run="r2").findings == changed.findings  # the next phone of the same run
    assert find(Engine(), run="r3").findings == ()
    monkeypatch.setattr(subject, "maker", lambda: Maker("3.8.0", "runner-1"))
    [same] = find(Engine(1, 8, 3), run="r4").findings
    assert (same.severity, same.title) == (
        "info", "engine 3.8.0 on this computer, and 3.7.0 before it, say the same in 2 texts"
    )  # fmt: skip


def test_another_runner_of_the_same_engine_is_no_change_of_the_engine(
    find: Callable[..., Found], monkeypatch: pytest.MonkeyPatch
) -> None:
    find(Engine(1))
    monkeypatch.setattr(subject, "maker", lambda: Maker("3.6.1", "runner-2"))
    again = find(engine := Engine(2))
    assert len(engine.asked) == 1
    assert again.findings == ()


def test_the_query_names_the_model_by_its_content(make: ModuleType, tmp_path: Path) -> None:
    plan = make.plan(engine={"chunk": 64, "use_mmap": True})
    context = RunContext("r1", tmp_path, plan, default_bundle(), {"toy": MODEL})
    query = query_of(context, cells_of(plan)[0])
    assert query.model_hash == MODEL.folder.hash
    assert query.engine == (("chunk", 64),)
    assert query.questions == (("Capital of Peru?", 32),)
