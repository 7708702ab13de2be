"""Orders for MNN's own tools, and made-up runs of them as the probe tells these."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.payload.bundle import Bundle
from harness.payload.bundle_manifest import BundleManifest
from harness.payload.folder import PayloadFile, PayloadFolder, read_folder
from harness.payload.models import ModelFolder
from harness.payload.probe_events import End, Output, RunLog, Start
from harness.plan.matrix import cells_of
from harness.plan.model import Plan
from harness.runners.base import Order, PromptText

MS = 1_000_000
BEGUN_NS = 40_000 * MS
PROGRAMS = ("llm_bench", "llm_demo")
HEAD = (
    b"config path is /w/model/config.json\n",
    b"The device supports: i8sdot:1, fp16:1, i8mm: 0, sve2: 0, sme2: 0\nmain, 321, cost time: 310.500000 ms\n"
    b"Prepare for tuning opt Begin\nPrepare for tuning opt End\nmain, 330, cost time: 42.250000 ms\n"
    b"prompt file is /w/prompts.txt\n",
)


def bundle(runner: str, programs: Sequence[str] = PROGRAMS) -> Bundle:
    names = sorted({*programs, runner})
    variant = {"abi": "arm64-v8a", "files": names, "backends": ["cpu", "opencl"]}
    manifest = {"name": "toy", "runner": runner, "engine_version": "3.6.1", "backends": ["cpu", "opencl"]}
    whole = {**manifest, "programs": {name: name for name in names}, "variants": [variant]}
    files = tuple(PayloadFile(name, 1, "b", True) for name in names)
    return Bundle(BundleManifest.model_validate(whole), PayloadFolder(Path(), files))


def model(folder: Path, **settings: Any) -> ModelFolder:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"llm_model": "llm.mnn", "thread_num": 9, **settings}))
    (folder / "llm.mnn").write_bytes(b"graph")
    (folder / "llm.mnn.weight").write_bytes(b"weights")
    return ModelFolder("toy", read_folder(folder), 80_000_000, 4)


def plan(**over: Any) -> Plan:
    values = {
        "models": ["toy"],
        "backends": ["cpu"],
        "threads": [2],
        "prompt_tokens": [8],
        "generate_tokens": [4],
        "warmups": 1,
        "repeats": 2,
        "cold_start": False,
        **over,
    }
    return Plan.model_validate(values)


def order(
    runner: str, folder: Path, programs: Sequence[str] = PROGRAMS, settings: dict[str, Any] | None = None, **over: Any
) -> Order:
    chosen = plan(**over)
    return Order(
        bundle=bundle(runner, programs),
        bundle_dir="/b",
        model=model(folder, **(settings or {})),
        model_dir="/m",
        work_dir="/w",
        cell=cells_of(chosen)[0],
        plan=chosen,
        prompt=PromptText("A phone lay", (5, 6, 7, 8, 9, 10, 11, 12), (2, 0)),
    )


def run(chunks: Sequence[tuple[float, bytes]], *, stderr: bytes = b"", wall_ms: float = 9000.0, **end: Any) -> RunLog:
    """A run whose output came in these chunks: milliseconds after its begin, bytes."""
    log, seq = RunLog(), itertools.count()
    log.add(Start(next(seq), BEGUN_NS, BEGUN_NS, 7, 6, "boot-1", ("tool",), 100, 600_000))
    for at_ms, data in chunks:
        log.add(Output(next(seq), BEGUN_NS + int(at_ms * MS), 0, 1, data))
    if stderr:
        log.add(Output(next(seq), BEGUN_NS + MS, 0, 2, stderr))
    values: dict[str, Any] = {
        "seq": next(seq), "mono_ns": BEGUN_NS + int(wall_ms * MS), "boot_ns": BEGUN_NS + int(wall_ms * MS),
        "exit_code": 0, "signal": None, "why": "exit", "errno": None, "maxrss_bytes": 170_000_000, "utime_ms": 9,
        "stime_ms": 1, "minflt": 1, "majflt": 0, "survivors": 0, "probe_cpu_ms": 3, "samples": 0, "file_error": None,
        **end,
    }  # fmt: skip
    log.add(End(**values))
    return log


def summary(prompt: int, decode: int, prefill_tps: float = 400.0, decode_tps: float = 50.0) -> bytes:
    """The summary of ``llm_demo``, whose times fit its speeds."""
    return (
        f"\n#################################\nprompt tokens num = {prompt}\ndecode tokens num = {decode}\n"
        f" vision time = 0.00 s\nprefill time = {prompt / prefill_tps:.2f} s\n"
        f" decode time = {decode / decode_tps:.2f} s\n"
        f" sample time = 0.00 s\nprefill speed = {prefill_tps:.2f} tok/s\n decode speed = {decode_tps:.2f} tok/s\n"
        f" audio RTF = -nan \n##################################\n"
    ).encode()


def streamed(texts: Sequence[Sequence[bytes]], *, step_ms: float = 20.0, prefill_ms: float = 100.0) -> list[Any]:
    """The chunks of ``llm_demo`` up to its summary: each token ``step_ms`` after the one before."""
    at = 500.0
    chunks: list[tuple[float, bytes]] = [(10.0, HEAD[0]), (at, HEAD[1])]
    for text in texts:
        at += prefill_ms - step_ms
        for piece in text:
            at += step_ms
            chunks.append((at, piece))
    return chunks


def demo(texts: Sequence[Sequence[bytes]], prompt_tokens: int, **times: float) -> RunLog:
    """A whole run of ``llm_demo`` over equal prompts."""
    chunks = streamed(texts, **times)
    count = sum(len(text) for text in texts)
    return run([*chunks, (chunks[-1][0] + 20, summary(prompt_tokens * len(texts), count))])


TABLE = (
    "| model                |  modelSize | backend    | threads | precision  | test          | speed(tok/s) |",
    "| -------------------- | ---------: | ---------- | ------: | ---------- | ------------- | ------------ |",
)


def row(speeds: str = "400.00 ± 0.00<br>50.00 ± 0.00", **over: str) -> str:
    cells = {
        "model": "model", "size": "76.29 MiB", "backend": "CPU", "threads": "2", "precision": "Low",
        "test": "pp8+tg4", **over,
    }  # fmt: skip
    return f"| {' | '.join(cells.values())} | {speeds} |"


def bench(*rows: str, said: str = "The device supports: i8sdot:1, fp16:1, i8mm: 0, sve2: 0, sme2: 0") -> RunLog:
    """A whole run of ``llm_bench``: everything leaves at its end."""
    return run([(8000.0, "\n".join([said, *TABLE, *rows, "", ""]).encode())])


TEXT = (b"The", b" river", b" ran", b" east")


def shown(prompt_tokens: int = 8) -> RunLog:
    """The run that shows the text of :data:`TEXT`."""
    return demo([TEXT], prompt_tokens)
