#!/usr/bin/env python3
"""farm_runner, the twin in Python: times generations of an MNN language model token by token, or runs of a model.

It prints one JSON object a line on stdout: ``hello``, ``load``, ``generation`` (one per warm-up, timed generation and
answer), ``error``, ``end``; of an ordinary model (``--tensor``) ``inference`` and ``output`` in place of generations.
Whatever the engine prints goes to stderr. Exit code 0 when all was done, 1 after an ``error`` event, 2 for a wrong
command line (one sentence on stderr, nothing on stdout). Times are milliseconds of the monotonic clock, sizes bytes.

Python 3.8 and newer, the standard library and the package ``MNN`` (which brings numpy); its parts lie in ``farm``::

    farm_runner.py --model DIR --backend cpu --threads 4 --prompt-tokens 64 --generate-tokens 32 --repeats 5 \\
        --ask "What is the capital of France?" --work-dir FRESH_FOLDER

    farm_runner.py --tensor MODEL.mnn --inputs DIR --outputs DIR --backend cpu --threads 4 --repeats 20

How it steps: ``generate_init()``, then ``forward(ids)`` and an argmax over the last row of logits, token after token.
The engine's own loop cannot be watched from Python: it prints the text itself and moves its counters only inside.
Stepping does not move those counters, so they are ``null`` in each generation; instead the engine's own loop runs once
more on the timed prompt after all timed generations, and ``end.engine_loop`` says what it counted.

``begun_ns`` is when something began, by CLOCK_MONOTONIC, so that every token can be joined with what was sampled then:
a token's time is ``begun_ns`` + ``ttft_ms`` + its part of ``token_ms``.

How it runs an ordinary model: as a session, which tells which backend it took, and as a module only where a session
cannot do it. A latency is from inputs handed to the engine to outputs in this process's memory.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# The folder on the phone is known by its files: none is added to it.
sys.dont_write_bytecode = True

from farm.backend import abi, cache_bytes, rss_bytes  # noqa: E402
from farm.language import load_in_rounds  # noqa: E402
from farm.options import parse_options  # noqa: E402
from farm.talk import EngineOutput, Events, StageError, with_complaint  # noqa: E402
from farm.tensor_run import run_tensors  # noqa: E402
from farm.work import Work  # noqa: E402

VERSION = "1.0"


def run(options: argparse.Namespace, events: Events, output: EngineOutput) -> dict[str, Any]:
    """Do all that was asked, event by event, and return further fields of the ``end`` event."""
    try:
        import MNN as mnn  # noqa: N811
        import MNN.expr  # noqa: F401
    except ImportError as error:
        mnn, missing = None, str(error)
    events.emit(
        "hello",
        runner="farm_runner",
        version=VERSION,
        engine="MNN",
        engine_version=mnn.version() if mnn else None,
        abi=abi(),
        pid=os.getpid(),
        python=platform.python_version(),
        rss_bytes=rss_bytes(),
    )
    if mnn is None:
        raise StageError("config", f"the Python package MNN cannot be imported: {missing}")
    work_dir = (options.work_dir or Path.cwd()).resolve()
    try:
        work_dir.mkdir(parents=True, exist_ok=True)
        for name in ("model", "tensor", "inputs", "outputs"):
            path = getattr(options, name)
            setattr(options, name, path if path is None else path.resolve())
        os.chdir(work_dir)  # some caches of the engine go to the current folder whatever it is told
    except OSError as error:
        raise StageError("config", f"the work folder {work_dir} cannot be used: {error.strerror}") from None
    events.stage = "load"
    if options.tensor is not None:
        run_tensors(mnn, options, events, output, work_dir)
        return {"cache_after_bytes": cache_bytes(work_dir)}
    model = load_in_rounds(mnn, options, events, output, work_dir)
    events.stage = "decode"
    loop = Work(options, model).do(events)
    return {"engine_loop": loop, "cache_after_bytes": cache_bytes(work_dir)}


def failed(events: Events, stage: str, message: str) -> int:
    events.emit("error", stage=stage, message=message)
    events.emit("end", status="error")
    return 1


def main(argv: Sequence[str]) -> int:
    options = parse_options(argv, (__doc__ or "").splitlines()[0])
    events = Events(os.dup(1))
    output = EngineOutput(events.fd)
    try:
        events.emit("end", status="ok", **run(options, events, output))
    except StageError as error:
        return failed(events, error.stage, str(error))
    except Exception as error:  # noqa: BLE001 - the binding raises plain Exception; the reader of events must hear of it
        traceback.print_exc()
        return failed(events, events.stage, with_complaint(f"{type(error).__name__}: {error}", output))
    finally:
        output.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
