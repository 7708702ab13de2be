"""Whether a model fits into a phone and its engine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.bench.fit import engine_cannot, remarks_on_engine, remarks_on_fit, too_big
from harness.bench.limits import Limits, use_of
from harness.bench.support import ruled_out
from harness.core.reasons import Reason
from harness.payload.bundle import Bundle
from harness.payload.bundle_manifest import BundleManifest, Target
from harness.payload.engine_needs import EngineNeed
from harness.payload.folder import PayloadFolder
from harness.payload.model_memory import needs_of
from harness.payload.model_shape import Interval, ModelShape
from harness.payload.models import ModelFolder
from harness.plan.matrix import PlannedCell, cells_of

GB = 1_000_000_000
#: Seven billion weights in 4 bits, as many bytes in the file as 4.4 GB.
SHAPE = ModelShape(
    weights=7 * GB,
    quantized_bytes=4_375_000_000,
    other_bytes=0,
    weight_end=4_375_000_000,
    largest_weights=500_000_000,
    hidden=4096,
    widest=11_008,
    keys=Interval(32_768, 32_768),
    values=Interval(32_768, 32_768),
    state_values=0,
    rows=150_000,
    all_logits=False,
    square_mask=False,
    scale_bytes=0,
    graph_bytes=2_000_000,
    tokenizer_bytes=3_000_000,
    encoder_bytes=0,
)
NEEDS = (EngineNeed("the tokenizer", "3.5.0", "3.4.1"),)
MODEL = ModelFolder(
    "toy", PayloadFolder(Path(), ()), 4_375_000_000, 4, engine_version="3.6.1", shape=SHAPE, engine_needs=NEEDS
)

BUNDLE = Bundle(
    BundleManifest(name="toy", runner="farm_runner", backends=["cpu"], program="x", files=["x"]),
    PayloadFolder(Path(), ()),
)


def cell(make: ModuleType, **plan: Any) -> PlannedCell:
    return cells_of(make.plan(**plan))[0]


@pytest.mark.parametrize(
    ("plan", "ram_gb", "fits"),
    [
        ({}, 4.2, True),
        ({}, 3.8, False),
        ({"context_tokens": [16_000]}, 5.8, False),
        ({"context_tokens": [16_000], "engine": {"attention_mode": [10]}}, 5.8, True),
        ({"memory": ["high"]}, 12.0, False),
        ({"memory": ["high"]}, 16.0, True),
        ({"engine": {"use_mmap": [True]}}, 1.0, True),
    ],
)
def test_a_cell_is_refused_where_even_the_least_it_needs_exceeds_the_phone(
    make: ModuleType, plan: Any, ram_gb: float, fits: bool
) -> None:
    refused = too_big(cell(make, **plan), MODEL, int(ram_gb * GB), "arm64-v8a")
    assert (refused is None) is fits
    if refused is not None:
        assert refused.reason is Reason.MODEL_TOO_BIG


def test_a_refusal_says_what_is_needed_what_there_is_and_what_to_do(make: ModuleType) -> None:
    refused = too_big(cell(make), MODEL, 3 * GB, None)
    assert refused is not None
    assert refused.detail == (
        "the model needs at least 3.51 GB (weights 3.50 GB, key-value cache 5.2 MB, the rest 5.1 MB), and a phone with "
        "3.00 GB of memory gives a program 2.70 GB at most: take a smaller model or fewer bits a weight, memory low, a "
        "shorter prompt or history, attention_mode = 10 (keys and values in 8 bits), or use_mmap = true (weights in a "
        "file; slow where they do not fit)"
    )


def test_a_32_bit_program_is_refused_more(make: ModuleType) -> None:
    refused = too_big(cell(make, engine={"use_mmap": [True]}), MODEL, 16 * GB, "armeabi-v7a")
    assert refused is not None
    assert "a 32-bit program (armeabi-v7a) can seek to byte 2147483647 at most" in refused.detail


def test_a_model_nobody_looked_at_is_judged_by_its_weights(make: ModuleType) -> None:
    unknown = replace(MODEL, shape=None)
    assert too_big(cell(make), unknown, None, None) is None
    assert too_big(cell(make), unknown, 5 * GB, None) is None
    assert too_big(cell(make), unknown, 4 * GB, None) is not None


def test_too_little_available_memory_when_the_run_began_is_remarked_not_refused(make: ModuleType) -> None:
    needs = needs_of(SHAPE, use_of(cell(make), MODEL))
    samples = [make.sample(mem_available_bytes=size) for size in (None, 3 * GB, 6 * GB)]
    evidence = replace(make.evidence(samples=tuple(samples)), limits=Limits(needs=needs))
    [found] = remarks_on_fit(evidence)
    assert (found.code, found.severity) == ("memory_short", "warning")
    assert found.title.startswith("the model needs at least 3.51 GB (weights 3.50 GB")
    assert found.title.endswith("and 3.00 GB were available: the phone had to end apps or to swap")
    assert list(remarks_on_fit(replace(evidence, limits=Limits()))) == []
    plenty = make.evidence(samples=(make.sample(mem_available_bytes=4 * GB),))
    assert list(remarks_on_fit(replace(plenty, limits=Limits(needs=needs)))) == []


def test_an_engine_that_does_not_know_the_model_is_refused_and_an_older_one_remarked() -> None:
    refused = engine_cannot(MODEL, "3.4.0")
    assert refused is not None
    assert refused.reason is Reason.BUNDLE_MISMATCH
    assert refused.detail == (
        "MNN 3.4.0 does not know the tokenizer, which came with MNN 3.5.0: take device binaries of MNN 3.5.0 or newer, "
        "or export the model with MNN 3.4.0"
    )
    assert engine_cannot(MODEL, "3.6.0") is None
    assert engine_cannot(MODEL, None) is None
    [found] = remarks_on_engine(MODEL, "3.6.0")
    assert (found.code, found.severity) == ("engine_older_than_model", "warning")
    assert found.title == "the graph was written by MNN 3.6.1, and the engine is 3.6.0"
    assert list(remarks_on_engine(MODEL, "3.6.1")) == []


@pytest.mark.parametrize(
    ("manifest", "reason", "says"),
    [
        ({"engine_version": "3.4.0"}, Reason.BUNDLE_MISMATCH, "MNN 3.4.0 does not know the tokenizer"),
        ({"engine_version": "3.6.0"}, None, ""),
        ({"abis": ["armeabi-v7a"]}, Reason.MODEL_TOO_BIG, "a 32-bit program (armeabi-v7a) can seek to byte"),
    ],
)
def test_before_the_run_engine_and_abi_are_those_that_the_phone_will_get(
    make: ModuleType, manifest: dict[str, Any], reason: Reason | None, says: str
) -> None:
    bundle = replace(BUNDLE, manifest=BundleManifest(**{**BUNDLE.manifest.model_dump(by_alias=True), **manifest}))
    facts = make.facts(abis=("arm64-v8a", "armeabi-v7a"))
    refused = ruled_out(cell(make), make.plan(), facts, bundle, MODEL)
    assert (refused.reason if refused is not None else None) is reason
    assert says in (refused.detail if refused is not None else "")


def test_the_abi_of_a_variant_is_the_one_that_was_chosen_for_the_phone() -> None:
    variants = [{"abi": abi, "folder": abi, "files": ["x"], "backends": ["cpu"]} for abi in ("armeabi-v7a", "x86_64")]
    values = {"name": "toy", "runner": "farm_runner", "backends": ["cpu"], "programs": {"farm_runner": "x"}}
    bundle = Bundle(BundleManifest(**values, variants=variants), PayloadFolder(Path(), ()))  # type: ignore[arg-type]
    assert bundle.abi(Target(("arm64-v8a", "armeabi-v7a"))) == "armeabi-v7a"
    assert bundle.abi(Target()) is None
