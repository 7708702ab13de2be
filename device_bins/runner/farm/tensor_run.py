"""An ordinary model's work: load it, time it on the first sample, run every sample once, write the outputs."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from farm.backend import cache_bytes, rss_bytes
from farm.model_files import check_file
from farm.talk import EngineOutput, Events, StageError, with_complaint
from farm.tensors import AsModule, AsSession, Sample, read_samples


def load_tensors(
    mnn: Any, options: argparse.Namespace, sample: Sample, work_dir: Path, output: EngineOutput
) -> tuple[Any, dict[str, Any]]:
    """Load an ordinary model, sized for its first sample, and return it with the fields of the ``load`` event.

    Raises:
        StageError: the file is not right, or the engine does not take it.
    """
    check_file(options.tensor, "model", "load")
    rss_before, cache_before = rss_bytes(), cache_bytes(work_dir)
    started = time.perf_counter()
    try:
        model: Any = AsSession(mnn, options, sample)
    except StageError as error:
        if error.stage != "input":
            raise
        model = load_module(mnn, options, sample, str(error), output)
    except Exception as error:  # noqa: BLE001 - the binding raises plain Exception over what only a module can do
        model = load_module(mnn, options, sample, str(error), output)
    load_ms = (time.perf_counter() - started) * 1e3
    return model, {
        "begun_ns": round(started * 1e9),
        "load_ms": load_ms,
        "backend_requested": options.backend,
        **model.proof(options, work_dir, output),
        "threads": options.threads,
        "precision": options.precision,
        "memory": options.memory,
        "ran_as": "session" if isinstance(model, AsSession) else "module",
        "rss_before_bytes": rss_before,
        "rss_bytes": rss_bytes(),
        "cache_before_bytes": cache_before,
    }


def load_module(mnn: Any, options: argparse.Namespace, sample: Sample, why: str, output: EngineOutput) -> AsModule:
    """Load what a session refused, ``why`` is what it said; only of the CPU something proves what runs a module."""
    if options.backend != "cpu":
        says = f"a session cannot run it ({why}), and nothing proves that {options.backend} runs a module"
        raise StageError("fallback", with_complaint(says, output))
    try:
        return AsModule(mnn, options, sample)
    except StageError:
        raise
    except Exception as error:  # noqa: BLE001 - as above
        says = f"the engine does not load {options.tensor}: {error or type(error).__name__}; as a session: {why}"
        raise StageError("load", with_complaint(says, output)) from None


def run_tensors(mnn: Any, options: argparse.Namespace, events: Events, output: EngineOutput, work_dir: Path) -> None:
    """Load the model, time it on the first sample, run every sample once and write its outputs.

    Raises:
        StageError: the samples are not right, or the engine failed or took another backend than required.
    """
    samples = read_samples(options.inputs)
    model, fields = load_tensors(mnn, options, samples[0], work_dir, output)
    events.emit("load", round=0, **fields)
    if options.require_backend and fields["backend_actual"] != options.backend:
        raise StageError("fallback", f"{options.backend} was asked for and not used: {fields['proof']}")
    try:
        options.outputs.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StageError("output", f"{options.outputs} cannot be made: {error.strerror}") from None
    kinds = [*["warmup"] * options.warmups, *["timed"] * options.repeats]
    work = [*((kind, samples[0]) for kind in kinds), *(("check", sample) for sample in samples)]
    events.stage = "run"
    for index, (kind, sample) in enumerate(work):
        if kind == "check" and len(samples) > 1:
            model.resize(sample)
        begun = time.perf_counter()
        made = model.run()
        latency_ms = (time.perf_counter() - begun) * 1e3
        events.emit(
            "inference",
            index=index,
            kind=kind,
            sample=sample.name,
            latency_ms=latency_ms,
            begun_ns=round(begun * 1e9),
            rss_bytes=rss_bytes(),
        )
        if kind == "check":
            arrays = {name: model.array(one) for name, one in made.items()}
            write_outputs(options.outputs, sample.name, arrays, events)


def write_outputs(folder: Path, sample: str, made: dict[str, Any], events: Events) -> None:
    """Write the outputs of one sample as raw little-endian files, and tell of each.

    Raises:
        StageError: the disk refuses, or there is nothing to write.
    """
    if not made:
        raise StageError("output", "the model has no outputs")
    for number, (name, array) in enumerate(sorted(made.items())):
        file = f"{sample}.{number}.bin"
        little = array.astype(array.dtype.newbyteorder("<"))
        try:
            (folder / file).write_bytes(little.tobytes())
        except OSError as error:
            raise StageError("output", f"{folder / file} cannot be written: {error.strerror}") from None
        dtype, shape = str(array.dtype), [int(extent) for extent in array.shape]
        events.emit("output", sample=sample, name=name, dtype=dtype, shape=shape, file=file)
