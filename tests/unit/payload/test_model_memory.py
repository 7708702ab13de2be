"""How much memory a model will take."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.core.resources import data_root
from harness.payload.model_check import check_model
from harness.payload.model_memory import (
    Use,
    address_space_limit,
    cannot_be_addressed,
    cannot_fit,
    may_not_fit,
    needs_64_bit,
    needs_of,
)
from harness.payload.model_shape import Interval, ModelShape, shape_of

GB = 1_000_000_000
TINY = data_root() / "profiles" / "models" / "tiny-llama"
#: A billion weights in 4 bits with scales, 20 layers that cache 512 keys and values each.
BILLION = ModelShape(
    weights=GB,
    quantized_bytes=625_000_000,
    other_bytes=1_000_000,
    weight_end=626_000_000,
    largest_weights=100_000_000,
    hidden=2_000,
    widest=6_000,
    keys=Interval(10_240, 10_240),
    values=Interval(10_240, 10_240),
    state_values=0,
    rows=100_000,
    all_logits=False,
    square_mask=False,
    scale_bytes=10_000_000,
    graph_bytes=1_000_000,
    tokenizer_bytes=3_000_000,
    encoder_bytes=0,
)


def use(**over: Any) -> Use:
    return Use(**{"prompt_tokens": 100, "generate_tokens": 20, **over})


def test_every_part_is_what_the_formula_says() -> None:
    needs = needs_of(BILLION, use())
    assert needs.engine == Interval(4_000_000, 5_000_000 + 36_000_000 + 20_000_000 + 64_000_000)
    assert needs.weights == Interval(501_000_000, 937_500_000 + 4_000_000)
    assert needs.loading == Interval(0, 250_000_000)
    assert needs.cache == Interval(120 * 20_480 * 2, (120 + 128) * 20_480 * 4)
    assert needs.activations == Interval(2 * 100 * 2_000 * 2, 4 * 100 * 48_000 + 16 * 1024**2 + 8 * 100_000)
    assert needs.total == Interval(
        4_000_000 + 501_000_000 + needs.cache.low + needs.activations.low, 125_000_000 + 941_500_000 + 250_000_000
    )


@pytest.mark.parametrize(
    ("changes", "weights"),
    [
        ({"memory": "high", "precision": "high"}, Interval(4 * GB + 1_000_000, 4 * GB + 4_000_000)),
        ({"memory": "normal"}, Interval(2 * GB + 1_000_000, 4 * GB + 4_000_000)),
        ({"memory": "normal", "backend": "opencl"}, Interval(501_000_000, 4 * GB + 4_000_000)),
        ({"settings": {"use_mmap": True}}, Interval(0, 941_500_000)),
        ({"settings": {"use_mmap": "true"}}, Interval(501_000_000, 941_500_000)),
    ],
)
def test_weights_are_held_as_memory_and_precision_say(changes: dict[str, Any], weights: Interval) -> None:
    assert needs_of(BILLION, use(**changes)).weights == weights


@pytest.mark.parametrize(
    ("settings", "low", "high"),
    [
        ({"attention_mode": 8}, 4, 8),
        ({"attention_mode": 9}, 3, 5.3),
        ({"attention_mode": 10}, 2, 2.6),
        ({"attention_mode": 2}, 3, 5.3),  # without flash attention the values stay as they are
        ({"quant_qkv": 1}, 3, 5.3),
        ({"attention_mode": 12}, 28 / 32, 28 / 32),
        ({"attention_mode": 13}, 2 + 18 / 32, 4 + 18 / 32),
        ({"attention_mode": 14}, 36 / 32, 36 / 32),
        ({"attention_mode": "10"}, 4, 8),
        ({"kvcache_mmap": True}, 0, 8),
    ],
)
def test_the_cache_has_as_many_bytes_a_number_as_the_attention_mode_says(
    settings: dict[str, Any], low: float, high: float
) -> None:
    cache = needs_of(BILLION, use(settings=settings)).cache
    assert cache == Interval(int(120 * 10_240 * low), int(248 * 10_240 * high))


def test_a_gpu_caches_in_full_whatever_the_attention_mode_and_has_a_driver_to_hold() -> None:
    gpu = needs_of(BILLION, use(backend="opencl", precision="high", settings={"attention_mode": 10}))
    assert gpu.cache == needs_of(BILLION, use()).cache
    assert gpu.engine.high == needs_of(BILLION, use()).engine.high + 256_000_000


def test_a_cache_that_has_to_grow_is_there_twice() -> None:
    assert needs_of(BILLION, use(context_tokens=80, generate_tokens=64)).cache.high == 2 * (244 + 128) * 20_480 * 4
    assert needs_of(BILLION, use(generate_tokens=65)).cache.high == 2 * (165 + 128) * 20_480 * 4


def test_what_a_prompt_takes_is_limited_by_chunks_and_raised_by_masks_and_logits() -> None:
    def most(shape: ModelShape = BILLION, **over: Any) -> int:
        return needs_of(shape, use(**{"prompt_tokens": 1000, "generate_tokens": 0, **over})).activations.high

    plain = most()
    assert most(settings={"chunk": 100}) == plain - 4 * 900 * 48_000
    assert most(replace(BILLION, square_mask=True)) == plain + 2 * 4 * 1000 * 1000
    assert most(settings={"attention_mode": 0}, threads=2) == plain + 2 * 4 * 1000 * 1000
    assert most(replace(BILLION, all_logits=True)) == plain + 8 * 999 * 100_000


def test_linear_attention_and_encoders_count() -> None:
    other = needs_of(replace(BILLION, state_values=500, encoder_bytes=7_000_000), use())
    assert other.cache == needs_of(BILLION, use()).cache + Interval(1000, 2000)
    assert other.weights == needs_of(BILLION, use()).weights + Interval(0, 28_000_000)


def test_only_what_exceeds_a_phone_at_its_lower_end_cannot_fit() -> None:
    needs = needs_of(BILLION, use())
    least = needs.total.low
    assert cannot_fit(needs, int(least / 0.9) + 2) is None
    assert cannot_fit(needs, 500_000_000) == (
        "the model needs at least 510.7 MB (weights 501.0 MB, key-value cache 4.9 MB, the rest 4.8 MB), and a phone "
        "with 500.0 MB of memory gives a program 450.0 MB at most"
    )
    assert may_not_fit(needs, least) is None
    assert "and 400.0 MB were available" in str(may_not_fit(needs, 400_000_000))


@pytest.mark.parametrize(
    ("abi", "limit"),
    [("arm64-v8a", None), ("x86_64", None), ("riscv64", None), ("armeabi-v7a", 4 << 30), ("x86", 4 << 30)],
)
def test_32_bit_programs_can_address_4_gib(abi: str, limit: int | None) -> None:
    assert address_space_limit(abi) == limit


def test_a_32_bit_program_is_refused_what_it_cannot_seek_to_or_address() -> None:
    assert cannot_be_addressed(BILLION, use(), "armeabi-v7a") is None
    assert not needs_64_bit(BILLION, use())
    far = replace(BILLION, weight_end=2**31)
    assert cannot_be_addressed(far, use(), "arm64-v8a") is None
    assert str(cannot_be_addressed(far, use(), "armeabi-v7a")).startswith(
        "the weight file is read up to byte 2147483648, and a 32-bit program (armeabi-v7a) can seek to byte 2147483647"
    )
    floats = use(memory="high", precision="high", context_tokens=20_000, settings={"use_mmap": True})
    assert "needs at least 5.97 GB and a 32-bit program (armeabi-v7a) can address 4.29 GB" in str(
        cannot_be_addressed(BILLION, floats, "armeabi-v7a")
    )
    assert needs_64_bit(BILLION, floats)


def test_a_models_own_configuration_says_how_it_is_used() -> None:
    config = {"backend_type": "opencl", "precision": "high", "thread_num": 68, "attention_mode": 10}
    assert Use.of_config(config) == Use("opencl", "high", "low", 68, settings=config)
    long = Use.of_config({"thread_num": "4"}, 4096)
    assert (long.prompt_tokens, long.context_tokens, long.tokens, long.threads) == (512, 3584, 4096, 4)
    assert Use.of_config({}, 100).prompt_tokens == 100


# --- read from folders ---


def test_the_shape_of_the_shipped_model_is_read_whole() -> None:
    assert shape_of(check_model(TINY)) == ModelShape(
        weights=598_016,
        quantized_bytes=374_244,
        other_bytes=7_168,
        weight_end=381_412,
        largest_weights=640 * 128,
        hidden=128,
        widest=320,
        keys=Interval(3 * 64, 3 * 64),
        values=Interval(3 * 64, 3 * 64),
        state_values=0,
        rows=640,
        all_logits=False,
        square_mask=False,
        scale_bytes=10_240,
        graph_bytes=54_256,
        tokenizer_bytes=10_777,
        encoder_bytes=0,
    )


@pytest.mark.parametrize(
    ("config", "cached"),
    [
        ({}, Interval(0, 0)),
        ({"layer_nums": 5}, Interval(0, 5 * 2 * 8)),
        ({"layer_nums": 5, "key_value_shape": [2, 1, 0, 4, 16]}, Interval(320, 320)),
        ({"layer_nums": 5, "num_key_value_heads": 2, "head_dim": 16}, Interval(160, 160)),
        ({"layer_nums": 10**15, "key_value_shape": "wide"}, Interval(0, 16 * 10**15)),
    ],
)
def test_a_graph_without_attentions_is_completed_by_the_configuration(
    kit: ModuleType, tmp_path: Path, config: dict[str, Any], cached: Interval
) -> None:
    shape = shape_of(check_model(kit.write_model(tmp_path / "toy", llm_config__json=kit.model_config(**config))))
    assert shape is not None
    assert (shape.keys, shape.values, shape.all_logits) == (cached, cached, True)


def test_a_folder_whose_graph_cannot_be_read_has_no_shape(kit: ModuleType, tmp_path: Path) -> None:
    assert shape_of(check_model(kit.write_model(tmp_path / "toy", llm__mnn=b"none"))) is None


# --- against reality ---


@pytest.mark.parametrize(("prompt", "words"), [(64, "low"), (512, "high")])
def test_what_the_tiny_model_really_takes_lies_within_the_estimate(
    load_module: Callable[[Path], ModuleType], tmp_path: Path, prompt: int, words: str
) -> None:
    runner = data_root() / "device_bins" / "runner" / "farm_runner.py"
    argv = [sys.executable, str(runner), "--model", str(TINY), "--threads", "1", "--work-dir", str(tmp_path)]
    argv += ["--precision", words, "--memory", words, "--prompt-tokens", str(prompt), "--generate-tokens", "8"]
    argv += ["--warmups", "0", "--repeats", "1"]
    done = subprocess.run(argv, capture_output=True, timeout=60, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    told = [json.loads(line) for line in done.stdout.splitlines()]
    before, peak = told[1]["rss_before_bytes"], told[2]["rss_bytes"]
    shape = shape_of(check_model(TINY))
    assert shape is not None
    needs = needs_of(shape, use(precision=words, memory=words, threads=1, prompt_tokens=prompt, generate_tokens=8))
    assert needs.total.low <= peak <= needs.total.high
    # And without what the estimate allows for the program itself, which is most of it for a model so small.
    assert needs.total.low - 3_000_000 <= peak - before <= needs.total.high - 64_000_000
