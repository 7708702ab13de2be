"""Records and run heads for the tests of reports. All values are made up."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from harness.core.reasons import Reason
from harness.store.head import RunInfo
from harness.store.runfolder import RunFolder
from harness.store.schema import CellRecord

RUN_ID = "20260101-000000-ab12"

_NOT_RUN = dict.fromkeys(("metrics", "thermal", "output", "backend", "raw"), "the cell was not run")


def phone(name: str = "atlas", **over: Any) -> dict[str, Any]:
    return {
        "id": f"id-of-{name}",
        "serial": f"S-{name}",
        "name": name,
        "model": f"Model {name}",
        "soc": "SM0000",
        "tier": "high",
        "fingerprint": f"maker/{name}/1",
        "boot_id": "b1",
        "context": "shell",
        "driver": "/vendor/lib64/libOpenCL.so",
        **over,
    }


def _measured(tps: float) -> dict[str, Any]:
    return {
        "backend": {"requested": "cpu", "actual": "cpu", "strength": "engine", "proof": "load event: backend cpu"},
        "metrics": {
            "load_cold_ms": 812.0,
            "first_use_ms": 955.0,
            "tuning_ms": None,
            "load_ms": 411.0,
            "ttft_ms": {"p50": 187.25, "p90": None, "min": 180.0, "max": 201.0, "n": 5},
            "prefill_tps": {"median": 341.6, "mad": 2.5, "cv": 0.012, "ci95": None, "n": 5},
            "decode_tps": {"median": tps, "mad": 0.8, "cv": 0.021, "ci95": [tps - 1.5, tps + 2], "n": 5},
            "token_ms": {"p50": 21.0, "p95": None, "max": 30.0},
            "peak_rss_bytes": 196 * 2**20,
            "peak_anon_bytes": 150 * 2**20,
            "peak_swap_bytes": 0,
            "peak_gpu_bytes": None,
            "min_available_bytes": 3 * 2**30,
            "roofline_ratio": None,
            "battery_drop_pct": None,
        },
        "thermal": {
            "start_c": 30.5,
            "max_c": 41.25,
            "zone": "cpu",
            "status_max": 0,
            "clock_ratio_min": 1.0,
            "throttled": False,
            "onset_s": None,
            "burst_tps": None,
            "sustained_tps": None,
            "sustained_ratio": None,
            "plugged": True,
        },
        "output": {
            "text": "Paris is the capital.",
            "token_ids_hash": "t" * 64,
            "reference": "host",
            "match": "prefix",
            "matched_tokens": 8,
            "golden": "1/1",
            "timed_text": "once upon a time",
            "answers": [
                {
                    "question": "What is the capital of France?",
                    "text": "Paris is the capital.",
                    "expect": "Paris",
                    "right": True,
                }
            ],
        },
        "raw": "raw/0123456789ab/1/",
        "nulls": {
            "tuning_ms": "this backend tunes nothing",
            "ttft_ms.p90": "fewer than 20 samples",
            "prefill_tps.ci95": "fewer than 6 samples",
            "token_ms.p95": "fewer than 20 samples",
            "peak_gpu_bytes": "no readable counter on this phone",
            "roofline_ratio": "memory bandwidth was not measured",
            "battery_drop_pct": "the phone was plugged in",
            **dict.fromkeys(("onset_s", "burst_tps", "sustained_tps", "sustained_ratio"), "only in sustained cells"),
        },
    }


_NOTHING: dict[str, Any] = {"backend": None, "metrics": None, "thermal": None, "output": None, "raw": None}


def record(
    name: str = "atlas",
    *,
    backend: str = "cpu",
    threads: int = 1,
    precision: str = "low",
    reason: Reason | None = None,
    tps: float = 48.0,
    measured: bool | None = None,
    model: str = "tiny-llama",
    config: dict[str, Any] | None = None,
    **over: Any,
) -> CellRecord:
    """Return a record; it has figures when it is ok or rejected, or as ``measured`` says. ``over`` replaces fields."""
    verdict = reason.verdict.value if reason else "ok"
    has_figures = measured if measured is not None else verdict in ("ok", "rejected")
    settings = {
        "kind": "burst",
        "backend": backend,
        "threads": threads,
        "precision": precision,
        "memory": "low",
        "prompt_hash": "p" * 64,
        "prompt_tokens": 64,
        "generate_tokens": 32,
        "context_tokens": 0,
        "warmups": 1,
        "repeats": 5,
        **(config or {}),
    }
    body = _measured(tps) if has_figures else {**_NOTHING, "nulls": dict(_NOT_RUN)}
    if has_figures:
        body["backend"] |= {"requested": backend, "actual": backend}
    data = {
        "run_id": RUN_ID,
        "cell_id": hashlib.sha256(repr((name, model, sorted(settings.items()))).encode()).hexdigest(),
        "attempt": 1,
        "started": "2026-01-01T00:00:00Z",
        "elapsed_s": 2.5,
        "harness_version": "0.1.0",
        "adb": {"server": "127.0.0.1:6037", "version": 41},
        "phone": phone(name),
        "model": {"name": model, "hash": "m" * 64, "weight_bytes": 700_000, "quant_bits": 4},
        "bundle": {
            "name": "python",
            "hash": "b" * 64,
            "engine": "MNN",
            "engine_version": "3.6.1",
            "runner": "farm_runner",
        },
        "config": settings,
        "verdict": verdict,
        "reason": reason.code if reason else None,
        "fault": reason.fault.value if reason else None,
        **body,
        **over,
    }
    return CellRecord.model_validate(data)


def fallback(name: str = "atlas", *, tps: float = 77.7) -> CellRecord:
    """Return an OpenCL cell that ran on the CPU, fast, with a wrong answer."""
    base = record(name, backend="opencl", reason=Reason.BACKEND_FALLBACK, tps=tps).model_dump(
        mode="json", by_alias=True
    )
    base["backend"] = {"requested": "opencl", "actual": "cpu", "strength": "log", "proof": "log: type=3 missing, use 0"}
    base["detail"] = "asked for opencl, cpu ran"
    base["output"]["golden"] = "0/1"
    base["output"]["answers"][0] |= {"text": "The capital is Lyon.", "right": False}
    base["findings"] = [
        {
            "code": "backend-fallback",
            "severity": "error",
            "title": "The engine has no OpenCL",
            "evidence": "runner.stderr:3: type=3 missing, use 0",
            "advice": "Build it in.",
        }
    ]
    return CellRecord.model_validate(base)


def all_verdicts() -> list[CellRecord]:
    """Return two phones' cells with every verdict among them."""
    cells = [
        record(name, threads=n, tps=tps * n) for name, tps in (("atlas", 31.0), ("birch", 17.5)) for n in (1, 2, 4)
    ]
    return [
        *cells,
        record("atlas", threads=4, precision="high", tps=66.6),
        fallback("atlas"),
        record("birch", threads=8, reason=Reason.THROTTLED, tps=99.9, detail="clock ratio fell to 0.61"),
        record("birch", threads=2, precision="high", reason=Reason.CRASH, detail="signal 11 in libMNN.so"),
        record("atlas", threads=8, reason=Reason.DEVICE_LOST, detail="no answer for 20 s"),
        record("atlas", backend="vulkan", reason=Reason.BACKEND_MISSING_ON_PHONE),
        record("birch", backend="vulkan", reason=Reason.BACKEND_MISSING_ON_PHONE),
        record("birch", backend="opencl", reason=Reason.BACKEND_MISSING_ON_PHONE),
        record("birch", threads=6, reason=Reason.OUT_OF_TIME),
    ]


def note(code: str, title: str, severity: str = "info") -> dict[str, str]:
    """Return a finding that does not decide."""
    return {"code": code, "severity": severity, "title": title}


def a_night() -> list[CellRecord]:
    """Return three phones' attempts: one that came back, one that was given up for good, one that was resumed."""
    recovered = note("recovered", "the phone was lost and came back (reconnect)", "warning")
    front = note("foreground_app", "in front: com.example.home")
    taken = note("lease", "taken over from ada, whose lease lapsed", "warning")
    refused = note("prepare_refused", "animations could not be set: permission denied", "warning")
    gone = "birch: not back after 120 s: adb does not list it"

    def at(minute: int, *notes: dict[str, str], **over: Any) -> dict[str, Any]:
        return {"started": f"2026-01-01T01:{minute:02}:00Z", "findings": list(notes), **over}

    return [
        record("atlas", threads=1, **at(0, front, taken, refused)),
        record("birch", threads=1, **at(0, front, elapsed_s=30)),
        record("atlas", threads=2, **at(1, recovered)),
        record("birch", threads=2, reason=Reason.DEVICE_LOST, detail=gone, **at(1, recovered, elapsed_s=130)),
        record("atlas", threads=4, **at(2, recovered, note("cool_down", "skin stays at 36.4 °C"))),
        record("atlas", threads=8, **at(3, note("cool_down", "skin stays at 36.9 °C"))),
        *(record("birch", threads=n, reason=Reason.PHONE_GONE, **at(4, detail="birch was given up")) for n in (4, 8)),
        record("cedar", threads=1, reason=Reason.REBOOTED, detail="the phone rebooted", **at(5)),
        record("cedar", threads=2, reason=Reason.DEVICE_OFFLINE, detail="cedar: not back", **at(6)),
        record("cedar", threads=4, reason=Reason.PHONE_GONE, **at(7)),
        record("cedar", threads=2, **at(50, attempt=2)),
    ]


def info(*names: str, **over: Any) -> RunInfo:
    """Return a run's head with phones of ``names`` (default atlas and birch)."""
    fleet = [
        {
            "phone": phone(name),
            "provider": "adb",
            "facts": {
                "model": f"Model {name}",
                "soc": "SM0000",
                "android_release": "14",
                "sdk": 34,
                "abis": ["arm64-v8a", "armeabi-v7a"],
                "kernel": "5.15.0",
                "cores": 8,
                "ram_bytes": 8 * 2**30,
                "opencl": "/vendor/lib64/libOpenCL.so",
                "vulkan": "",
                "cpu_max_khz": None,
                "zones": [
                    {"zone": 0, "type": "cpu", "milli_c": 31200},
                    {"zone": 1, "type": "modem", "milli_c": -273000},
                ],
            },
            "nulls": {"cpu_max_khz": "no core's clock is readable"},
        }
        for name in names or ("atlas", "birch")
    ]
    data = {
        "run_id": RUN_ID,
        "started": "2026-01-01T00:00:00Z",
        "command": ["pytest", "--devices", "all", "--plan", "my plan"],
        "harness_version": "0.1.0",
        "versions": {"MNN": "3.6.1", "python": "3.11.2"},
        "host": {"name": "bench-pc"},
        "plan_name": "smoke",
        "plan": {"schema": 1, "kind": "burst", "backends": ["cpu", "opencl"], "engine": {"use_mmap": [False]}},
        "fleet": fleet,
        "left_out": [{"name": "cedar", "reason": "unauthorized", "remedy": "accept the key on its screen"}],
        **over,
    }
    return RunInfo.model_validate(data)


def run_folder(path: Path, head: RunInfo, records: list[CellRecord]) -> Path:
    """Write a run folder."""
    folder = RunFolder.create(path)
    folder.write_info(head)
    for each in records:
        folder.append(each)
    return path


THROTTLED: dict[str, Any] = {
    "start_c": 31.0,
    "max_c": 47.5,
    "zone": "skin-therm",
    "status_max": 2,
    "clock_ratio_min": 0.6,
    "throttled": True,
    "onset_s": 60.4,
    "burst_tps": 50.0,
    "sustained_tps": 30.0,
    "sustained_ratio": 0.6,
    "plugged": False,
    "judged_by": "speed, clocks, heat, status",
}


def curve(*, sensors: bool = True) -> list[dict[str, Any]]:
    """Return two minutes, of which the second is slow."""
    return [
        {
            "t_s": 5.0 * n,
            "decode_tps": 50.0 if n < 12 else 30.0,
            "celsius": 31.0 + n / 2 if sensors else None,
            "clock_ratio": (1.0 if n < 12 else 0.6) if sensors else None,
        }
        for n in range(24)
    ]


def sustained(
    name: str = "atlas", *, points: list[dict[str, Any]] | None = None, reason: Reason | None = None, **thermal: Any
) -> CellRecord:
    """Return a sustained cell that throttled; ``thermal`` replaces fields of that section."""
    body = {**THROTTLED, "curve": curve() if points is None else points, **thermal}
    base = record(name, config={"kind": "sustained", "duration_s": 120.0}, reason=reason)
    nulls = {**base.nulls, **{key: f"no {key}" for key, value in body.items() if value is None}}
    return CellRecord.model_validate({**base.model_dump(by_alias=True), "thermal": body, "nulls": nulls})


WEIGHTS = {"fp32": (32, 11_000_000), "fp16": (16, 5_600_000), "int8": (8, 2_900_000), "int4": (4, 1_600_000)}
_NO_TEXT = "a tensor cell generates no text"


def tensor(
    name: str = "atlas",
    stored: str = "fp32",
    *,
    latency: float = 20.0,
    n: int = 5,
    cosine: float = 0.9999,
    same: float | None = 1.0,
    samples: int = 25,
    failed: int = 0,
    real: bool = True,
    agreeing: float = 0.9,
    peak: int = 90 * 2**20,
    source: str | None = "5" * 64,
    model: str = "ocr",
    outputs: int = 1,
    config: dict[str, Any] | None = None,
    **over: Any,
) -> CellRecord:
    """Return a tensor cell of a variant of ``model``; the worst of its ``outputs`` is the last, as told."""
    bits, size = WEIGHTS[stored]
    base = record(name, model=f"{model}-{stored}", config=config, **over).model_dump(mode="json", by_alias=True)
    base["config"] |= {"kind": "tensor", "prompt_tokens": 0, "generate_tokens": 0}
    ran = base["metrics"] is not None
    weights = {"hash": f"{model}{stored}".ljust(64, "0"), "weight_bytes": size, "quant_bits": bits}
    base["model"] |= {**weights, "stored": stored, "source": source}
    if ran:
        lacking = ("ttft_ms", "prefill_tps", "decode_tps", "token_ms", "roofline_ratio", "first_use_ms")
        spread = {"min": latency * 0.9, "max": latency * 1.25, "n": n}
        base["metrics"] |= {
            **dict.fromkeys(lacking),
            "peak_rss_bytes": peak,
            "latency_ms": {
                "p50": latency,
                "p90": latency * 1.1 if n >= 20 else None,
                "p99": latency * 1.2 if n >= 200 else None,
                **spread,
            },
        }
        kept = {
            "shape": [1, 40, 97],
            "agreeing": agreeing,
            "max_error": 0.16,
            "mean_error": 0.002,
            "cosine_mean": cosine,
            "cosine_min": cosine - 0.01,
            "same_top1": None if same is None else max(0.0, same - 0.04),
            "same_positions": same,
        }
        good = {
            **kept,
            "name": "boxes",
            "cosine_mean": 1.0,
            "cosine_min": 1.0,
            "max_error": 0.0,
            "same_positions": None,
        }
        base["output"] = {
            "text": "",
            **dict.fromkeys(("token_ids_hash", "reference", "match", "matched_tokens", "golden")),
            "tensors": {
                "reference": "ONNX Runtime 1.23",
                "samples": samples,
                "failed": failed,
                "tolerance": 1e-4,
                "held_to": "what int8 keeps",
                "real_inputs": real,
                "outputs": [{**good, "same_top1": None}] * (outputs - 1) + [{**kept, "name": "letters"}],
            },
        }
        of_output = ("token_ids_hash", "reference", "match", "matched_tokens", "golden")
        missing = {f"latency_ms.{key}": "too few samples" for key, least in (("p90", 20), ("p99", 200)) if n < least}
        base["nulls"] |= {**dict.fromkeys((*lacking, *of_output), _NO_TEXT), **missing}
        base["samples"] = [
            {
                **dict.fromkeys(("ttft_ms", "prefill_ms", "decode_tps")),
                "kind": "timed",
                "prompt_tokens": 0,
                "generated_tokens": 0,
                "finish": "done",
                "latency_ms": latency * (1 + 0.01 * (nth % 3 - 1)),
            }
            for nth in range(n)
        ]
    return CellRecord.model_validate(base)
