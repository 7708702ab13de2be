"""MNN's llm_bench and llm_demo through the whole chain on a virtual phone: stand-ins print what these print.

The text of the stand-ins is that of tiny-llama's reference, which is computed here, so that a text can be right.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.bench.context import RunContext
from harness.bench.leave import leave_as_found
from harness.bench.match import Reference
from harness.bench.phone import ConnectedPhone, connect
from harness.bench.reference import find_reference
from harness.bench.session import PhoneSession
from harness.core.errors import HostError
from harness.core.provider import load_provider
from harness.payload.bundle import default_bundle, read_bundle
from harness.payload.models import find_model, read_model
from harness.plan.load import load_plan
from harness.plan.matrix import cells_of
from harness.plan.tiers import load_tier_rules
from harness.runners.prompt_text import prompt_text
from harness.store.runfolder import RunFolder
from harness.store.schema import CellRecord

FAKE = Path(__file__).parents[1] / "data" / "fake_mnn" / "tool.py"
PROMPT_TOKENS, TOKENS = 16, 12
PLAN = f"""
schema = 1
models = ["tiny-llama"]
backends = ["BACKEND"]
cold_start = COLD
threads = [1]
prompt_tokens = [{PROMPT_TOKENS}]
generate_tokens = [{TOKENS}]
warmups = 1
repeats = 2
cell_timeout_s = 60
[roofline]
measure = false
[[ask]]
question = "What is the capital of France?"
expect = "Paris"
max_tokens = 4
"""
MANIFEST = """
schema = 1
name = "fake-mnn"
runner = "llm_bench"
engine_version = "3.6.1"
backends = ["cpu", "opencl"]
[programs]
llm_bench = "llm_bench"
llm_demo = "llm_demo"
[[variants]]
abi = "x86_64"
files = ["llm_bench", "llm_demo", "faults.json"]
backends = ["cpu", "opencl"]
"""
Measure = Callable[..., CellRecord]


def plan_file(folder: Path, backend: str = "cpu", *, cold: bool = False) -> Path:
    file = folder / "plan.toml"
    file.write_text(PLAN.replace("BACKEND", backend).replace("COLD", str(cold).lower()))
    return file


@pytest.fixture(scope="module")
def connected(farm_cache: Path) -> Iterator[ConnectedPhone]:
    patch = pytest.MonkeyPatch()
    patch.setenv("MNN_FARM_CACHE", str(farm_cache))
    provider = load_provider("virtual")
    try:
        phone = connect(provider.start(["high-opencl"])[0], load_tier_rules())
        yield phone
        leave_as_found(phone, lambda _: None)
    except HostError as error:
        pytest.skip(f"no virtual phone on this computer: {error}")
    finally:
        provider.stop()
        patch.undo()


@pytest.fixture(scope="module")
def reference(connected: ConnectedPhone, tmp_path_factory: pytest.TempPathFactory) -> Reference:
    """What tiny-llama says to the timed prompt and the question."""
    folder = tmp_path_factory.mktemp("reference")
    plan = load_plan(plan_file(folder))
    model = read_model(find_model("tiny-llama"))
    context = RunContext("reference", folder, plan, default_bundle(), {"tiny-llama": model})
    text = prompt_text(model, PROMPT_TOKENS).text
    found = find_reference(context, cells_of(plan)[0], lambda _: None, prompt_text=text)
    assert found.reference is not None, found.why
    return found.reference


@pytest.fixture
def measure(connected: ConnectedPhone, reference: Reference, tmp_path: Path) -> Measure:
    """Run one cell with a runner whose tools are bent by ``faults``; return its record as it was written."""

    def run(runner: str, *, backend: str = "cpu", cold: bool = False, **faults: Any) -> CellRecord:
        folder = tmp_path / "bundle"
        folder.mkdir()
        for name in ("llm_bench", "llm_demo"):
            shutil.copy(FAKE, folder / name)
        text = reference.timed
        pieces = [bytes.fromhex(text.pieces[token]).decode() for token in text.token_ids]
        answer = [reference.answers[0].text]
        told = {"pieces": pieces, "answer": answer, "prompt_tokens": PROMPT_TOKENS, **faults}
        (folder / "faults.json").write_text(json.dumps(told))
        (folder / "bundle.toml").write_text(MANIFEST)
        bundle = read_bundle(folder).with_runner(runner)  # type: ignore[arg-type]
        plan = load_plan(plan_file(tmp_path, backend, cold=cold))
        models = {name: read_model(find_model(name)) for name in plan.models}
        kept = RunFolder.create(tmp_path / "run")
        context = RunContext("tools", kept.path, plan, bundle, models)
        PhoneSession(connected, context, lambda _: None).run_cell(cells_of(plan)[0])
        [record] = kept.records()
        return record

    return run


def verdict(record: CellRecord) -> tuple[str, str | None]:
    return record.verdict.value, record.reason


def test_llm_bench_gives_figures_and_llm_demo_its_text(measure: Measure, reference: Reference) -> None:
    record = measure("llm_bench")
    assert verdict(record) == ("ok", None), record.detail
    assert record.metrics is not None
    assert record.metrics.decode_tps is not None
    assert record.metrics.prefill_tps is not None
    assert (record.metrics.decode_tps.median, record.metrics.decode_tps.n) == (250.0, 2)
    assert record.metrics.prefill_tps.median == 2500.0
    assert record.metrics.ttft_ms is None
    assert record.output is not None
    assert (record.output.match, record.output.matched_tokens) == ("prefix", TOKENS)
    assert record.output.timed_text == reference.timed.text
    assert record.output.answers[0].text == reference.answers[0].text
    assert (record.bundle.runner, record.bundle.engine_version) == ("llm_bench", "3.6.1")
    assert record.backend is not None
    assert record.backend.strength == "log"
    assert "definition" in {finding.code for finding in record.findings}
    assert [sample.kind for sample in record.samples] == ["timed", "timed", "check", "answer"]


def test_llm_demo_gives_figures_text_and_a_cold_start(measure: Measure, reference: Reference) -> None:
    record = measure("llm_demo", cold=True)
    assert verdict(record) == ("ok", None), record.detail
    assert record.metrics is not None
    assert record.metrics.decode_tps is not None
    assert record.metrics.load_ms == 20.25
    assert record.metrics.first_use_ms is not None
    assert record.metrics.first_use_ms > 20.25 + 40
    # A machine that is busy makes times longer, never shorter.
    assert 25 < record.metrics.decode_tps.median < 250
    assert record.output is not None
    assert (record.output.match, record.output.matched_tokens) == ("prefix", TOKENS)
    assert record.output.timed_text == reference.timed.text
    assert [sample.kind for sample in record.samples] == ["warmup", "timed", "timed", "answer"]


@pytest.mark.parametrize(
    ("faults", "reason"),
    [
        ({"size": "17179869184.00 GiB", "speeds": "8000000.00 ± 0.00<br>1000000.00 ± 0.00"}, "load_error"),
        ({"said": ["Resize error, can't execute MNN"]}, "engine_error"),
        ({"header": "| model | bytes | where | how | test | speed |"}, "unparsed_output"),
        ({"said": ["Can't Find type=3 backend, use 0 instead"], "backend": "opencl"}, "backend_fallback"),
        ({"backend": "opencl"}, "backend_unproven"),
        ({"text": [" other"] + [f" word{n}" for n in range(11)]}, "output_wrong"),
    ],
)
def test_llm_bench_is_not_believed(measure: Measure, faults: dict[str, Any], reason: str) -> None:
    record = measure("llm_bench", **faults)
    assert record.verdict.value != "ok"
    assert record.reason == reason, record.detail
    if reason == "unparsed_output":
        assert "| model | bytes | where |" in record.findings[0].evidence


@pytest.mark.parametrize(
    ("faults", "reason"),
    [
        ({"said": ["ReadQuanData_c return weightLength is 0, maybe the weight data is invalid"]}, "load_error"),
        ({"text": [" so", " it", " is"]}, "token_count_short"),
        ({"text": [" east"] * 12}, "output_degenerate"),
        ({"exit": 1}, "engine_error"),
    ],
)
def test_llm_demo_is_not_believed(measure: Measure, faults: dict[str, Any], reason: str) -> None:
    record = measure("llm_demo", **faults)
    assert record.verdict.value != "ok"
    assert record.reason == reason, record.detail
