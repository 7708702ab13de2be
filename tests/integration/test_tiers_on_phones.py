"""Three virtual phones, high, mid and low, whose properties are known: what is recommended is what these demand.

The engine's times and memory are ordered (the synthetic runner, in a copy that goes by another engine's name, since
what it measures is otherwise left out); phones, facts, tiers, sessions, records and ``tiers.json`` are real.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from benchmarks.ordered import ordered_bundle
from harness.bench.context import RunContext
from harness.bench.leave import leave_as_found
from harness.bench.member import member_of
from harness.bench.phone import ConnectedPhone, connect
from harness.bench.session import PhoneSession
from harness.core.provider import Endpoint
from harness.core.resources import data_root
from harness.payload.bundle import read_bundle
from harness.payload.models import ModelFolder, find_model, read_model
from harness.plan.golden import with_golden
from harness.plan.load import load_plan
from harness.plan.matrix import cells_of
from harness.plan.tiers import load_tier_rules
from harness.report.tiers import tiers_json, tiers_of_runs
from harness.store.head import RunInfo
from harness.store.runfolder import RunFolder

PHONES = ("high", "mid", "low")
PLAN = """
schema = 1
kind = "{kind}"
models = ["toy"]
backends = ["cpu"]
threads = [1]
cold_start = false
prompt_tokens = [256]
generate_tokens = [8]
warmups = 0
repeats = 3
cell_timeout_s = 60
{more}
[roofline]
measure = false
[reference]
policy = "off"
[golden]
set = "{golden}"
"""
SLO = """
[slo.{tier}]
prompt_tokens = 256
ttft_ms = 2000.0
decode_tps = 20.0
sustained_ratio = 0.5
ram_share_max = 0.08
golden = 0.5
"""
GOLDEN = '[[ask]]\nquestion = "Which capital?"\nexpect = "Paris"\nmax_tokens = 4\n'
FAST = {"load_ms": "5", "prefill_ms": "20", "first_token_ms": "1", "token_ms": "5", "peak_mb": "100", "answer": "Paris"}
SLOW = {"token_ms": "120"}
HUNGRY = {"peak_mb": "700"}
TIRES = {"slow_after_s": "0.5", "slow_factor": "8"}


def bundle(folder: Path, **orders: str) -> Path:
    return ordered_bundle(folder, [f"{key}={value}" for key, value in {**FAST, **orders}.items()], {"engine": "MNN"})


def plan_file(folder: Path, kind: str, more: str = "") -> Path:
    golden = folder / "golden.toml"
    golden.write_text(GOLDEN)
    file = folder / f"{kind}.toml"
    file.write_text(PLAN.format(kind=kind, more=more, golden=golden))
    return file


def toy(folder: Path, name: str, weights: int) -> ModelFolder:
    """A model of so many bytes of weights, which this runner does not look into."""
    shutil.copytree(find_model("tiny-llama"), folder / name)
    with (folder / name / "llm.mnn.weight").open("ab") as file:
        file.truncate(weights)
    return read_model(folder / name)


@pytest.fixture(scope="module")
def connected(virtual_phones: list[Endpoint]) -> Iterator[dict[str, ConnectedPhone]]:
    phones = {name: connect(one, load_tier_rules()) for name, one in zip(PHONES, virtual_phones, strict=True)}
    yield phones
    for phone in phones.values():
        leave_as_found(phone, lambda _: None)


@pytest.fixture
def measure(connected: dict[str, ConnectedPhone], tmp_path: Path) -> Callable[..., None]:
    """Run a model on a phone, in a burst and, unless told otherwise, for 1.6 seconds, into one run folder."""
    folder = RunFolder.create(tmp_path / "run")
    plans = {
        "burst": with_golden(load_plan(plan_file(tmp_path, "burst"))),
        "sustained": with_golden(load_plan(plan_file(tmp_path, "sustained", "duration_s = 1.6"))),
    }
    folder.write_info(
        RunInfo(
            run_id="known", started="2026-01-01T00:00:00Z", command=(), harness_version="0", versions={}, host={},
            plan_name="burst", plan=plans["burst"].model_dump(mode="json", by_alias=True),
            fleet=tuple(member_of(phone) for phone in connected.values()),
        )
    )  # fmt: skip

    def run(phone: str, model: ModelFolder, soak: bool = True, **orders: str) -> None:
        made = read_bundle(bundle(tmp_path / f"{phone}-{model.name}", **orders))
        for plan in [plans["burst"], *([plans["sustained"]] if soak else [])]:
            context = RunContext("known", folder.path, plan, made, {"toy": model})
            [planned] = cells_of(plan)
            # Where this computer stalls, ordered tokens come in bursts, which no engine could: then it is tried again.
            for _ in range(3):
                record = PhoneSession(connected[phone], context, lambda _: None).run_cell(planned)
                if record.reason != "implausible_speed":
                    break
            assert record.verdict.value == "ok", record.detail

    return run


def test_each_tier_gets_what_its_phones_properties_demand(measure: Any, tmp_path: Path) -> None:
    small, big = toy(tmp_path, "small", 1 << 20), toy(tmp_path, "big", 3 << 20)
    measure("high", big)
    measure("mid", big, soak=False, **HUNGRY)
    measure("mid", small)
    measure("low", big, soak=False, **SLOW)
    measure("low", small, **TIRES)
    own = tmp_path / "own.toml"
    own.write_text('[[rules]]\ntier = "low"\nwhen = {}\n' + "".join(SLO.format(tier=tier) for tier in PHONES))
    found = json.loads(tiers_json(tiers_of_runs([tmp_path / "run"], own)))
    schema = json.loads((data_root() / "profiles" / "tiers.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(found)
    high, mid, low = found["tiers"]
    assert [(each["tier"], each["phones"]) for each in found["tiers"]] == [("high", 1), ("mid", 1), ("low", 1)]
    assert (high["recommended"]["model"], mid["recommended"]["model"], low["recommended"]) == ("big", "small", None)
    assert [(out["model"], out["by"]) for each in (high, mid, low) for out in each["ruled_out"]] == [
        ("big", ["ram_share_max"]),
        ("big", ["decode_tps"]),
        ("small", ["sustained_ratio"]),
    ]
    assert high["expected"]["decode_tps_worst_phone"] > 20
    assert [phone["tier_because"].split(";")[0] for phone in found["phones"]] == [
        "rule 1 (high) fits", "rule 3 (mid) fits", "rule 5 (low) fits"
    ]  # fmt: skip


def test_a_cell_that_misses_its_tiers_slo_fails_the_run_and_says_by_what(farm_cache: Path, tmp_path: Path) -> None:
    plan = plan_file(tmp_path, "burst")
    plan.write_text(plan.read_text().replace('"toy"', '"tiny-llama"'))
    argv = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--devices",
        "virtual:mid",
        "--plan",
        str(plan),
    ]
    argv += ["--bundle", str(bundle(tmp_path / "slow", **SLOW)), "--run-dir", str(tmp_path / "run")]
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "ANDROID_"))}
    env = {**clean, "MNN_FARM_CACHE": str(farm_cache), "CI": "true"}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, env=env, stdin=subprocess.DEVNULL)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "  missed:   decode_tps: decode speed 8." in done.stdout
    assert "is in tier mid" in done.stdout
    [record] = RunFolder(tmp_path / "run").records()
    assert (record.verdict.value, record.phone.ram_bytes) == ("ok", 7702364 * 1024)
    written = json.loads((tmp_path / "run" / "tiers.json").read_text())
    assert written["tiers"][1]["recommended"] is None
    assert written["tiers"][1]["ruled_out"][0]["by"] == ["decode_tps"]
    assert 'id="tiers"' in (tmp_path / "run" / "report.html").read_text()
