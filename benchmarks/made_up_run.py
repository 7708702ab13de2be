"""A run folder of any size, made up: as many phones and cells as wanted, with every verdict among them."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

MODELS = ("made-up-135m", "made-up-360m", "made-up-500m", "made-up-1b", "made-up-3b")
_CONFIGURATIONS = tuple(
    (backend, threads, precision)
    for backend, counts in (("cpu", (1, 2, 4, 6, 8)), ("opencl", (68,)), ("vulkan", (1,)))
    for threads, precision in product(counts, ("low", "high"))
)
_PROMPTS = tuple(64 * n for n in range(1, 9))
_REFUSED = (
    ("rejected", "throttled", "infra"),
    ("rejected", "output_wrong", "product"),
    ("failed", "crash", "product"),
    ("failed", "device_lost", "infra"),
    ("unsupported", "backend_missing_on_phone", "product"),
    ("skipped", "out_of_time", "infra"),
)
_SECTIONS = ("backend", "metrics", "thermal", "output", "raw")
_UNKNOWN = {
    "tuning_ms": "this backend tunes nothing",
    "ttft_ms.p90": "20 samples are needed",
    "peak_gpu_bytes": "no readable counter on this phone",
    "roofline_ratio": "the plan does not measure the phone's memory bandwidth",
    "battery_drop_pct": "the phone was plugged in",
}
_OF_SUSTAINED = ("onset_s", "burst_tps", "sustained_tps", "sustained_ratio")


def write_run(path: Path, cells: int, phones: int) -> None:
    """Write ``run.json`` and ``results.jsonl`` of a run; the same arguments give the same run."""
    dice = random.Random(cells)  # noqa: S311 (made-up figures are no secret)
    path.mkdir(parents=True)
    fleet = [_phone(number) for number in range(phones)]
    (path / "run.json").write_text(json.dumps(_head(fleet, cells)), encoding="utf-8")
    with (path / "results.jsonl").open("w", encoding="utf-8") as results:
        for number in range(cells):
            record = _record(dice, fleet[number % phones], number // phones)
            results.write(json.dumps(record, separators=(",", ":")) + "\n")


def _phone(number: int) -> dict[str, Any]:
    return {
        "id": f"id-{number:04}",
        "serial": f"MADEUP{number:04}",
        "name": f"phone-{number:03}",
        "model": f"Model {number % 40}",
        "soc": f"SM{8000 + number % 25}",
        "tier": ("high", "mid", "low")[number % 3],
        "fingerprint": f"maker/model/{number % 40}",
        "boot_id": f"boot-{number}",
        "context": "shell",
        "driver": "/vendor/lib64/libOpenCL.so",
    }


def _head(fleet: list[dict[str, Any]], cells: int) -> dict[str, Any]:
    facts = {"android_release": "14", "abis": ["arm64-v8a"], "cores": 8, "ram_bytes": 8 * 2**30, "kernel": "5.15.0"}
    return {
        "schema": 1,
        "run_id": "20260101-000000-made",
        "started": "2026-01-01T00:00:00Z",
        "command": ["pytest", "--devices", "all", "--plan", "full"],
        "harness_version": "0.1.0",
        "versions": {"python": "3.11"},
        "host": {"name": "made-up"},
        "plan_name": "full",
        "plan": {"schema": 1, "kind": "burst"},
        "fleet": [{"phone": phone, "provider": "adb", "facts": facts} for phone in fleet],
        "cells": cells,
    }


def _record(dice: random.Random, phone: dict[str, Any], nth: int) -> dict[str, Any]:
    is_sustained = nth == 0
    (backend, threads, precision), model, prompt = _nth_configuration(nth)
    cell_id = hashlib.sha256(f"{phone['id']} {nth}".encode()).hexdigest()
    verdict, reason, fault = dice.choice(_REFUSED) if dice.random() < 0.2 and not is_sustained else ("ok", None, None)
    if verdict == "unsupported" and backend == "cpu":
        verdict, reason, fault = "failed", "crash", "product"
    config = {
        "kind": "sustained" if is_sustained else "burst",
        "backend": backend,
        "threads": threads,
        "precision": precision,
        "memory": "low",
        "prompt_hash": "0" * 64,
        "prompt_tokens": prompt,
        "generate_tokens": 64 + nth // (len(_CONFIGURATIONS) * len(MODELS) * len(_PROMPTS)),
        "context_tokens": 0,
        "warmups": 1,
        "repeats": 5,
        "duration_s": 600.0 if is_sustained else None,
    }
    ran = verdict in ("ok", "rejected")
    return {
        "schema": 1,
        "record": "cell",
        "run_id": "20260101-000000-made",
        "cell_id": cell_id,
        "attempt": 1,
        "started": f"2026-01-01T{nth // 60 % 24:02}:{nth % 60:02}:{dice.randrange(60):02}Z",
        "elapsed_s": round(dice.uniform(2, 40), 3),
        "harness_version": "0.1.0",
        "adb": {"server": "127.0.0.1:5037", "version": 41},
        "phone": phone,
        "planned_phone": None,
        "model": {
            "name": MODELS[model],
            "hash": hashlib.sha256(MODELS[model].encode()).hexdigest(),
            "weight_bytes": (90 + 400 * model) << 20,
            "quant_bits": 4,
        },
        "bundle": {
            "name": "official",
            "hash": "b" * 64,
            "engine": "MNN",
            "engine_version": "3.6.1",
            "runner": "farm_runner",
        },
        "config": config,
        "verdict": verdict,
        "reason": reason,
        "fault": fault,
        "detail": f"signal 11 at 0x{dice.randrange(200):x}" if reason else "",
        **(_measured(dice, backend, model, is_sustained) if ran else {**dict.fromkeys(_SECTIONS), "samples": []}),
        "findings": [],
        "nulls": dict(_UNKNOWN) if is_sustained else _nulls(ran),
        "raw": f"raw/{cell_id[:12]}/1/" if ran else None,
    }


def _nth_configuration(nth: int) -> tuple[tuple[str, int, str], int, int]:
    nth, configuration = divmod(nth, len(_CONFIGURATIONS))
    nth, model = divmod(nth, len(MODELS))
    return _CONFIGURATIONS[configuration], model, _PROMPTS[nth % len(_PROMPTS)]


def _nulls(ran: bool) -> dict[str, str]:
    if not ran:
        return dict.fromkeys(_SECTIONS, "the cell was not run")
    return {**_UNKNOWN, **dict.fromkeys(_OF_SUSTAINED, "only in sustained cells")}


def _measured(dice: random.Random, backend: str, model: int, is_sustained: bool) -> dict[str, Any]:
    tps = dice.uniform(20, 120) / (1 + model)
    ttft_ms = dice.uniform(30, 900)
    speed = {"median": tps, "mad": tps * 0.01, "cv": 0.02, "ci95": [tps * 0.98, tps * 1.02], "n": 5}
    sample = {"kind": "timed", "prompt_tokens": 64, "generated_tokens": 64, "finish": "length"}
    samples = [
        {**sample, "ttft_ms": dice.gauss(ttft_ms, 3), "prefill_ms": dice.gauss(ttft_ms, 3), "decode_tps": tps}
        for _ in range(6)
    ]
    right = dice.random() < 0.9
    return {
        "backend": {"requested": backend, "actual": backend, "strength": "engine", "proof": f"load: backend {backend}"},
        "metrics": {
            "load_cold_ms": dice.uniform(500, 3000),
            "first_use_ms": dice.uniform(600, 4000),
            "tuning_ms": None,
            "load_ms": dice.uniform(200, 900),
            "ttft_ms": {"p50": ttft_ms, "p90": None, "min": ttft_ms - 5, "max": ttft_ms + 9, "n": 5},
            "prefill_tps": {**speed, "median": tps * 9, "ci95": [tps * 8.8, tps * 9.3]},
            "decode_tps": speed,
            "token_ms": {"p50": 1000 / tps, "p95": 1200 / tps, "max": 2000 / tps},
            "peak_rss_bytes": int((120 + 420 * model) * 2**20 * dice.uniform(0.9, 1.2)),
            "peak_anon_bytes": 100 << 20,
            "peak_swap_bytes": 0,
            "peak_gpu_bytes": None,
            "min_available_bytes": dice.randrange(1 << 30, 4 << 30),
            "roofline_ratio": None,
            "battery_drop_pct": None,
        },
        "thermal": _thermal(dice, tps, is_sustained),
        "output": {
            "text": "Paris." if right else "Lyon, I think.",
            "token_ids_hash": "c" * 64,
            "reference": "host",
            "match": "prefix",
            "matched_tokens": 32,
            "golden": "1/1" if right else "0/1",
            "answers": [
                {
                    "question": "What is the capital of France?",
                    "text": "Paris." if right else f"Lyon, I think, or number {dice.randrange(5000)}.",
                    "expect": "Paris",
                    "right": right,
                }
            ],
        },
        "samples": samples,
    }


def _thermal(dice: random.Random, tps: float, is_sustained: bool) -> dict[str, Any]:
    base = {
        "start_c": dice.uniform(28, 33),
        "max_c": dice.uniform(35, 48),
        "zone": "skin",
        "status_max": 0,
        "clock_ratio_min": 1.0,
        "throttled": is_sustained,
        "plugged": True,
        **dict.fromkeys(_OF_SUSTAINED),
    }
    if not is_sustained:
        return base
    return base | {
        "onset_s": 200.0,
        "burst_tps": tps,
        "sustained_tps": tps * 0.6,
        "sustained_ratio": 0.6,
        "judged_by": "speed, clocks, heat, status",
        "curve": list(_curve(dice, tps)),
    }


def _curve(dice: random.Random, tps: float) -> Iterator[dict[str, float]]:
    for n in range(120):
        share = 1.0 if n < 40 else 0.6
        yield {"t_s": 5.0 * n, "decode_tps": dice.gauss(tps * share, 0.3), "celsius": 31 + n / 8, "clock_ratio": share}
