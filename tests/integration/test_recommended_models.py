"""Three phones, three real models, the real engine: what is recommended is what their known properties demand.

Known of the models: SmolLM2 with 8 bits a weight is the largest (260 MiB at its peak) and answers three questions of
three; with 4 bits it is smaller (170 MiB) and says what a week is not; the tiny one (40 MiB) is a hundred times as fast
and knows one answer. Known of the phones: the high one has 12 GB; the mid one has 8 GB and goes at a seventh of its
clock after five busy seconds; the low one has 4 GB and a tenth of the others' speed. So a share of RAM separates the
tiers, a score and a speed the models, a speed and a soak the phones. All limits lie far from what is measured, because
the phones share this computer's processor.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from harness.core.resources import data_root
from harness.payload.models_fetch import model_path
from harness.store.runfolder import RunFolder

TINY, W4, W8 = "tiny-llama", "smollm2-135m-w4", "smollm2-135m"
PLAN = """
schema = 1
kind = "{kind}"
models = [{models}]
backends = ["cpu"]
threads = [1]
memory = ["low"]
cold_start = false
prompt_tokens = [48]
generate_tokens = [{tokens}]
warmups = 0
{more}
[roofline]
measure = false
[golden]
set = "{golden}"
[slo]
judge = false
"""
GOLDEN = r"""
[[ask]]
question = "What is the capital of France?"
expect = "Paris"
max_tokens = 16
[[ask]]
question = "What colour is the sky on a clear day?"
expect = "blue"
max_tokens = 18
[[ask]]
question = "How many days are in a week?"
expect = '\b7 days|seven days'
max_tokens = 12
"""
COOL = "[cool]\nbelow_c = 40.0\ntimeout_s = 120"
SOAK = "duration_s = 9.0"
PHONES = {"high": "high", "mid": "mid-hot", "low": "low-slow"}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run of bursts and one of soaks, by pytest as people call it."""
    for name in (W4, W8):
        if model_path(name) is None:
            pytest.skip(f"{name} is not on this computer; get it with: mnn-farm models fetch {name}")
    folder = tmp_path_factory.mktemp("three")
    (folder / "golden.toml").write_text(GOLDEN)
    golden = folder / "golden.toml"
    all_models = ", ".join(f'"{name}"' for name in (TINY, W4, W8))
    # Of the soak every model would show the same: how far the clock falls.
    kinds = {
        "burst": PLAN.format(kind="burst", models=all_models, tokens=8, more=f"repeats = 2\n{COOL}", golden=golden),
        "sustained": PLAN.format(
            kind="sustained", models=f'"{TINY}"', tokens=64, more=f"{SOAK}\n{COOL}", golden="none"
        ),
    }
    wanted = {"burst": 9, "sustained": 3}
    devices = ",".join(f"virtual:{profile}" for profile in PHONES.values())
    for kind, text in kinds.items():
        (folder / f"{kind}.toml").write_text(text)
        argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--devices", devices]
        argv += ["--plan", str(folder / f"{kind}.toml"), "--run-dir", str(folder / kind), "--against", "none"]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=900, check=False, cwd=data_root())
        records = RunFolder(folder / kind).records()
        ended = [(record.verdict.value, record.detail) for record in records]
        assert ended == [("ok", "")] * wanted[kind], done.stdout[-3000:]
    return folder / "burst", folder / "sustained"


@pytest.fixture
def decided(measured: tuple[Path, Path], tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Say what ``mnn-farm tiers`` decides under a promise that all tiers make; checked against the schema."""

    def decide(**slo: float) -> dict[str, Any]:
        rules = (data_root() / "profiles" / "tiers.toml").read_text().split("[slo.", 1)[0]
        promised = "".join(f"{name} = {value}\n" for name, value in {"prompt_tokens": 48, **slo}.items())
        own = tmp_path / "own.toml"
        own.write_text(rules + "".join(f"[slo.{tier}]\n{promised}" for tier in PHONES))
        argv = [sys.executable, "-m", "harness.cli", "tiers", *measured, "--rules", own, "-o", tmp_path / "tiers.json"]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
        found: dict[str, Any] = json.loads((tmp_path / "tiers.json").read_text())
        schema = json.loads((data_root() / "profiles" / "tiers.schema.json").read_text())
        jsonschema.Draft202012Validator(schema).validate(found)
        assert done.returncode == (1 if None in models_of(found).values() else 0), done.stderr
        return found

    return decide


def models_of(found: dict[str, Any]) -> dict[str, str | None]:
    return {tier["tier"]: (tier["recommended"] or {}).get("model") for tier in found["tiers"]}


def by(found: dict[str, Any]) -> dict[str, set[str]]:
    """The promises that ruled something out, by tier."""
    return {
        tier["tier"]: {name for out in tier["ruled_out"] for name in out["by"]}
        for tier in found["tiers"]
        if tier["ruled_out"]
    }


def ruled_out(found: dict[str, Any], tier: str) -> dict[str, str]:
    [of_tier] = [each for each in found["tiers"] if each["tier"] == tier]
    return {each["model"]: each["because"] for each in of_tier["ruled_out"]}


def test_the_largest_model_within_the_promised_share_of_ram_is_recommended(decided: Callable[..., Any]) -> None:
    found = decided(ram_share_max=0.028, golden=0.3)
    assert models_of(found) == {"high": W8, "mid": W4, "low": TINY}
    assert ruled_out(found, "high") == {}
    assert list(ruled_out(found, "mid")) == [W8]
    assert sorted(ruled_out(found, "low")) == sorted([W8, W4])
    assert by(found) == {"mid": {"ram_share_max"}, "low": {"ram_share_max"}}
    [mid] = [phone for phone in found["phones"] if phone["tier"] == "mid"]
    assert (mid["recommended"]["model"], mid["recommended"]["quant_bits"]) == (W4, 4)


def test_a_promise_of_right_answers_rules_out_what_is_small_and_wrong(decided: Callable[..., Any]) -> None:
    assert models_of(decided(golden=0.6)) == {"high": W8, "mid": W8, "low": W8}
    found = decided(golden=0.6, ram_share_max=0.028)  # 4 bits answer two of three, the tiny one answers one
    assert models_of(found) == {"high": W8, "mid": W4, "low": None}
    assert by(found)["low"] == {"ram_share_max", "golden"}
    found = decided(golden=0.9, ram_share_max=0.028)
    assert models_of(found) == {"high": W8, "mid": None, "low": None}


def test_a_speed_that_only_the_tiny_model_has_recommends_it_unless_it_must_be_right(
    decided: Callable[..., Any],
) -> None:
    assert models_of(decided(decode_tps=800)) == dict.fromkeys(PHONES, TINY)
    found = decided(decode_tps=800, golden=0.6)
    assert models_of(found) == dict.fromkeys(PHONES)
    assert by(found) == {tier: {"decode_tps", "golden"} for tier in PHONES}
    assert all("no configuration met the SLO" in tier["because"] for tier in found["tiers"])


def test_a_speed_that_the_slow_phone_lacks_rules_a_model_out_there_and_nowhere_else(
    decided: Callable[..., Any],
) -> None:
    found = decided(decode_tps=52)  # 8 bits: about 135 tok/s, and 13 where the phone is slow; 4 bits: 200 and 20
    assert models_of(found) == {"high": W8, "mid": W8, "low": TINY}
    assert sorted(ruled_out(found, "low")) == sorted([W8, W4])
    assert by(found) == {"low": {"decode_tps"}}


def test_a_phone_that_gets_hot_keeps_no_promise_of_speed_that_lasts(decided: Callable[..., Any]) -> None:
    found = decided(decode_tps=800, sustained_ratio=0.4)
    assert models_of(found) == {"high": TINY, "mid": None, "low": TINY}
    assert "sustained_ratio" in by(found)["mid"]


def test_what_nobody_soaked_is_not_recommended_where_lasting_speed_is_promised(decided: Callable[..., Any]) -> None:
    found = decided(sustained_ratio=0.4, golden=0.6)
    assert models_of(found) == dict.fromkeys(PHONES)  # only the tiny one was soaked, and it answers wrongly
    assert all("sustained over burst speed" in tier["because"] for tier in found["tiers"])
    assert by(found)["high"] == {"not_known", "golden"}
