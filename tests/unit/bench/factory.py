"""An honest cell, and how to bend it. All values are made up.

The honest cell: 80 MB of weights, two timed generations of 8 prompt and 32 generated tokens after a warm-up, one
question answered; 20 ms a token; the whole run takes 4 s.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.bench.evidence import Evidence
from harness.bench.validity import judge
from harness.payload.bundle import Bundle
from harness.payload.bundle_manifest import BundleManifest
from harness.payload.folder import PayloadFolder
from harness.payload.models import ModelFolder
from harness.payload.probe_events import End, Output, RunLog, Sample, Sensors, SensorZone, Start
from harness.phone.facts import Facts
from harness.plan.matrix import PlannedCell, cells_of
from harness.plan.model import Plan
from harness.runners.base import Order
from harness.runners.events import parse_runner_output

GIB = 1024**3
RAM = 8 * GIB
WEIGHTS = 80_000_000
MS = 1_000_000

Event = dict[str, Any]


def plan(**over: Any) -> Plan:
    return Plan.model_validate(
        {
            "models": ["toy"],
            "backends": ["cpu"],
            "threads": [4],
            "prompt_tokens": [8],
            "generate_tokens": [32],
            "warmups": 1,
            "repeats": 2,
            "cold_start": False,
            "ask": [{"question": "Capital of Peru?", "expect": "lima"}],
            "reference": {"policy": "off"},
            **over,
        }
    )


def generation(index: int, kind: str, *, tokens: int = 32, step_ms: float = 20.0, **over: Any) -> Event:
    return {
        "event": "generation",
        "index": index,
        "kind": kind,
        "prompt_tokens": 8,
        "generated_tokens": tokens,
        "prefill_ms": 40.0,
        "ttft_ms": 42.0,
        "token_ms": [step_ms] * (tokens - 1),
        "finish": "length",
        "token_ids": list(range(100, 100 + tokens)),
        "text": "The river ran east.",
        **over,
    }


def events(backend: str = "cpu", threads: int = 4) -> list[Event]:
    """What an honest runner prints."""
    return [
        {"event": "hello", "runner": "farm_runner", "engine": "MNN", "engine_version": "3.6.1", "pid": 7},
        {
            "event": "load",
            "load_ms": 300.0,
            "backend_requested": backend,
            "backend_actual": backend,
            "strength": "engine",
            "proof": f"a session runs on {backend}",
            "threads": threads,
            "precision": "low",
            "memory": "low",
        },
        generation(0, "warmup"),
        generation(1, "timed", step_ms=20.0),
        generation(2, "timed", step_ms=20.4),
        generation(3, "answer", tokens=4, question="Capital of Peru?", text="Lima.", finish="eos"),
        {"event": "end", "status": "ok"},
    ]


def order(**over: Any) -> Order:
    """The honest cell as it is ordered on a phone."""
    chosen = over.pop("plan", None) or plan()
    manifest = {"name": "toy", "runner": "farm_runner", "backends": ["cpu"], "program": "x", "files": ["x"]}
    whole = {
        "bundle": Bundle(BundleManifest(**manifest), PayloadFolder(Path(), ())),
        "bundle_dir": "/b",
        "model": ModelFolder("toy", PayloadFolder(Path(), ()), WEIGHTS, 4),
        "model_dir": "/m",
        "work_dir": "/w",
        "cell": cells_of(chosen)[0],
        "plan": chosen,
        **over,
    }
    return Order(**whole)


def lines(told: list[Event]) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in told)


def sample(**over: Any) -> Sample:
    values: dict[str, Any] = {
        "seq": 2,
        "mono_ns": 0,
        "boot_ns": 0,
        "processes": 1,
        "rss_bytes": 150_000_000,
        "anon_bytes": 90_000_000,
        "swap_bytes": 0,
        "hwm_bytes": 160_000_000,
        "threads": 4,
        "utime_ms": 10,
        "stime_ms": 1,
        "mem_available_bytes": 3 * GIB,
        "cur_khz": (1_800_000, 2_400_000),
        "cap_khz": (1_800_000, 2_400_000),
        "milli_c": (31_000, 29_000),
        **over,
    }
    return Sample(**values)


def run(
    stdout: bytes = b"",
    stderr: bytes = b"",
    *,
    samples: tuple[Sample, ...] | None = None,
    zones: tuple[str, ...] = ("cpu-0-0", "skin-therm"),
    wall_ms: float = 4000.0,
    told_ms: float = 3000.0,
    boot_ms: float | None = None,
    begun: bool = True,
    ended: bool = True,
    lost: int = 0,
    **end: Any,
) -> RunLog:
    """A run as the probe tells it, of which ``lost`` events did not arrive; ``end`` bends its last event."""
    log = RunLog()
    seq = itertools.count()
    if begun:
        log.add(Start(next(seq), 5 * MS, 9 * MS, 7, 6, "boot-1", ("farm_runner",), 100, 600_000))
    sensors = tuple(SensorZone(n, name) for n, name in enumerate(zones))
    log.add(Sensors(next(seq), 5 * MS, 9 * MS, (0, 1), sensors, ()))
    for one in samples if samples is not None else (sample(), sample()):
        log.add(dataclasses.replace(one, seq=next(seq)))
    # One chunk a line, evenly over `told_ms`.
    chunks = [line + b"\n" for line in stdout.split(b"\n")]
    for number, chunk in enumerate(chunks[:-1], start=1):
        stamp = 5 * MS + int(told_ms * MS * number / len(chunks))
        log.add(Output(next(seq), stamp, 10 * MS, 1, chunk))
    log.add(Output(next(seq), 5 * MS + int(told_ms * MS), 10 * MS, 1, chunks[-1][:-1]))
    log.add(Output(next(seq), 6 * MS, 10 * MS, 2, stderr))
    if ended:
        values: dict[str, Any] = {
            "seq": next(seq) + lost,
            "mono_ns": 5 * MS + int(wall_ms * MS),
            "boot_ns": 9 * MS + int((wall_ms if boot_ms is None else boot_ms) * MS),
            "exit_code": 0,
            "signal": None,
            "why": "exit",
            "errno": None,
            "maxrss_bytes": 170_000_000,
            "utime_ms": 9,
            "stime_ms": 1,
            "minflt": 1,
            "majflt": 0,
            "survivors": 0,
            "probe_cpu_ms": 3,
            "samples": 2,
            "file_error": None,
            **end,
        }
        log.add(End(**values))
    return log


def evidence(
    told: list[Event] | bytes | None = None,
    *,
    backend: str = "cpu",
    bend: Callable[[list[Event]], object] | None = None,
    the_plan: Plan | None = None,
    weight_bytes: int = WEIGHTS,
    ram_bytes: int | None = RAM,
    started_hot: str | None = None,
    **of_run: Any,
) -> Evidence:
    """The honest cell; ``bend`` changes its events in place, ``of_run`` goes to :func:`run`."""
    chosen = the_plan or plan(backends=[backend])
    cell: PlannedCell = cells_of(chosen)[0]
    if told is None:
        told = events(backend, cell.threads)
    if bend is not None:
        assert isinstance(told, list)
        bend(told)
    stdout = told if isinstance(told, bytes) else lines(told)
    return Evidence(
        cell=cell,
        plan=chosen,
        run=run(stdout, **of_run),
        told=parse_runner_output(stdout),
        weight_bytes=weight_bytes,
        ram_bytes=ram_bytes,
        started_hot=started_hot,
    )


def codes(found: Evidence) -> list[str]:
    return [objection.reason.code for objection in judge(found)]


def facts(**over: Any) -> Facts:
    values: dict[str, Any] = {
        "model": "Toy 3",
        "manufacturer": "Maker",
        "soc": "TS900",
        "platform": "ts",
        "android_release": "15",
        "sdk": 35,
        "abis": ("arm64-v8a",),
        "fingerprint": "maker/toy/1",
        "serialno": "TOY1",
        "boot_id": "boot-1",
        "kernel": "6.1",
        "page_size": 4096,
        "cores": 2,
        "clusters": ((0,), (1,)),
        "core_max_khz": {0: 2_000_000, 1: 2_400_000},
        "cpu_max_khz": 2_400_000,
        "cpu_features": ("asimddp",),
        "ram_bytes": RAM,
        "available_bytes": 3 * GIB,
        "opencl": "",
        "vulkan": "",
        "driver": "V@0001.2",
        "python_mnn": "3.6.1",
        "zones": (),
        **over,
    }
    return Facts(**values)
