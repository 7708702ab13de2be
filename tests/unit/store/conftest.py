from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


def _record(**over: Any) -> dict[str, Any]:
    """A record of an honest cell, as plain values; `over` replaces fields at the top."""
    speed = {"median": 48.0, "mad": 0.5, "cv": 0.01, "ci95": [47.0, 49.0], "n": 5}
    return {
        "schema": 1,
        "record": "cell",
        "run_id": "r1",
        "cell_id": "c" * 64,
        "attempt": 1,
        "started": "2026-01-01T00:00:00Z",
        "elapsed_s": 1.5,
        "harness_version": "0",
        "adb": {"server": "127.0.0.1:6000", "version": 41},
        "phone": {
            "id": "p1", "serial": "S1", "name": "toy-1", "model": "Toy 3", "soc": "TS900", "tier": "mid",
            "fingerprint": "f", "boot_id": "b", "context": "shell", "driver": None,
        },
        "planned_phone": None,
        "model": {"name": "toy", "hash": "m", "weight_bytes": 7, "quant_bits": 4},
        "bundle": {"name": "b", "hash": "b", "engine": "MNN", "engine_version": "3.6.1", "runner": "farm_runner"},
        "config": {
            "kind": "burst", "backend": "cpu", "threads": 4, "precision": "low", "memory": "low", "affinity": None,
            "engine": {"use_mmap": True, "chunk": 64, "power": "high"}, "prompt_hash": "h", "sampler": "greedy",
            "prompt_tokens": 8, "generate_tokens": 32, "context_tokens": 0, "warmups": 1, "repeats": 5,
        },
        "verdict": "ok",
        "reason": None,
        "fault": None,
        "detail": "",
        "backend": {"requested": "cpu", "actual": "cpu", "strength": "engine", "proof": "it says so"},
        "metrics": {
            "load_cold_ms": 1.0, "tuning_ms": 1.0, "load_ms": 1.0,
            "ttft_ms": {"p50": 1.0, "p90": 2.0, "min": 1.0, "max": 2.0, "n": 20},
            "prefill_tps": speed, "decode_tps": speed, "token_ms": {"p50": 1.0, "p95": 1.0, "max": 1.0},
            "peak_rss_bytes": 1, "peak_anon_bytes": 1, "peak_swap_bytes": 0, "peak_gpu_bytes": 1,
            "min_available_bytes": 1, "roofline_ratio": 0.5, "battery_drop_pct": 0.0,
        },
        "thermal": {
            "start_c": 30.0, "max_c": 40.0, "zone": "skin", "status_max": 0, "clock_ratio_min": 1.0,
            "throttled": False, "onset_s": 0.0, "burst_tps": 1.0, "sustained_tps": 1.0, "sustained_ratio": 1.0,
            "plugged": True,
        },
        "output": {
            "text": "Lima.", "token_ids_hash": "t", "reference": "host", "match": "prefix", "matched_tokens": 8,
            "golden": "1/1",
        },
        "samples": [],
        "findings": [],
        "nulls": {"driver": "not read"},
        "raw": "raw/cccccccccccc/1/",
        **over,
    }  # fmt: skip


@pytest.fixture
def values() -> Callable[..., dict[str, Any]]:
    return _record
