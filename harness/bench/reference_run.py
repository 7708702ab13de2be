"""Computes a reference: the runner over MNN's Python package, in a process of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path

import psutil

from harness.bench.match import Expected, Reference
from harness.bench.reference_store import Maker, Query
from harness.core.deadline import Deadline
from harness.core.errors import DeadlineError, HostError, ModelRunError
from harness.core.procs import die_with_parent
from harness.payload.bundle import default_bundle
from harness.payload.models import ModelFolder
from harness.runners.events import parse_runner_output
from harness.runners.farm_runner import reference_command

MOST_THREADS = 4
_GIB = 2**30
# Beside the weights: the engine, its buffers and the context.
_BESIDE_BYTES = _GIB // 2
# Without dynamic quantisation the engine unpacks weights to 32 bits while it loads.
_UNPACKED_BITS = 32
_LEAST_BITS = 4


def runner_file() -> Path:
    """Return the runner that computes references."""
    return default_bundle().folder.root / "farm_runner.py"


def maker() -> Maker:
    """Return what computes references on this computer.

    Raises:
        HostError: the MNN package is not installed.
    """
    try:
        version = metadata.version("MNN")
    except metadata.PackageNotFoundError:
        raise HostError("the Python package MNN is not installed here", remedy="pip install MNN") from None
    return Maker(version, default_bundle().folder.hash[:16])


def compute(query: Query, model: ModelFolder, deadline: Deadline) -> Reference:
    """Compute a reference.

    Raises:
        HostError: this computer cannot: no room for the model.
        ModelRunError: the engine here cannot run it: the runner failed or crashed.
        DeadlineError: it was not done in time.
    """
    _check_memory(query, model)
    with tempfile.TemporaryDirectory(prefix="mnn-farm-reference-") as work:
        threads = min(MOST_THREADS, os.cpu_count() or 1)
        argv = reference_command(
            (sys.executable, str(runner_file())),
            str(model.folder.root),
            work,
            threads=threads,
            precision=query.precision,
            memory=query.memory,
            lengths=(query.prompt_tokens, query.generate_tokens, query.context_tokens),
            engine=dict(query.engine),
            questions=query.questions,
            prompt_text=query.prompt_text,
        )
        status, stdout, stderr = _run(argv, deadline)
    return _read(query, status, stdout, stderr)


def _check_memory(query: Query, model: ModelFolder) -> None:
    bits = model.quant_bits or _LEAST_BITS
    blow_up = 1.0 if query.memory == "low" else max(1.0, _UNPACKED_BITS / bits)
    needs = int(model.weight_bytes * blow_up) + _BESIDE_BYTES
    free = psutil.virtual_memory().available
    if needs > free:
        raise HostError(
            f"the model needs about {needs / _GIB:.1f} GiB here and {free / _GIB:.1f} GiB are free",
            remedy='close programs, or set policy = "off" under [reference]',
        )


def _run(argv: Sequence[str], deadline: Deadline) -> tuple[int, bytes, bytes]:
    """Run a program and return exit status, stdout and stderr; whatever is left of it when this ends is killed."""
    child = subprocess.Popen(
        list(argv),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=die_with_parent,
    )
    with child:
        try:
            out, err = child.communicate(timeout=deadline.remaining_s())
        except subprocess.TimeoutExpired:
            raise DeadlineError(deadline.phone, deadline.what, deadline.seconds) from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
    return child.returncode, out, err


def _read(query: Query, status: int, stdout: bytes, stderr: bytes) -> Reference:
    told = parse_runner_output(stdout)
    timed, answers = told.of_kind("timed"), told.of_kind("answer")
    last = stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or ["no word"]
    if told.errors:
        raise ModelRunError(f"the runner failed here ({told.errors[0].stage}: {told.errors[0].message})")
    if status < 0:
        raise ModelRunError(f"the runner crashed here (signal {-status}): {last[0][:200]}")
    if status or told.hello is None or len(timed) != 1 or len(answers) != len(query.questions):
        raise ModelRunError(f"the runner ended here with exit status {status} and no whole account: {last[0][:200]}")
    return Reference(
        engine_version=told.hello.engine_version or "unknown",
        timed=Expected.of(timed[0]),
        answers=tuple(Expected.of(answer) for answer in answers),
    )


Compute = Callable[[Query, ModelFolder, Deadline], Reference]
