"""What the programs that run a model in a process of its own have in common: arguments, inputs, outputs, the answer.

What an engine prints goes to stderr; stdout gets one line of JSON, the facts of the run or ``{"error": {"code",
"message"}}`` (exit code 1). With ``--batch`` every ``.npz`` of a folder is run, and ``runs`` has for each its name and,
where it failed, its ``error``; a failure of one does not end the rest.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from harness.payload.tensor_files import read_tensors, write_tensors
from harness.payload.tensor_inputs import Input, RunError, fit_inputs, random_inputs
from harness.payload.tensors import Array


class Engine(Protocol):
    """A loaded model."""

    inputs: tuple[Input, ...]
    facts: dict[str, Any]

    def run(self, fed: Mapping[str, Array]) -> tuple[dict[str, Array], dict[str, Any]]:
        """Run it once; return its outputs and further facts.

        Raises:
            RunError: the engine failed.
        """
        ...


def parser_of(doc: str) -> argparse.ArgumentParser:
    """Return the parser of the arguments that every such program takes."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--input", type=Path, help="an .npz file with an array for each input, by name")
    parser.add_argument("--batch", type=Path, help="a folder of such files; --outputs is a folder then")
    parser.add_argument("--seed", type=int, default=0, help="of the random inputs, without --input and --batch")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--outputs", type=Path, required=True, help="where the outputs go")
    parser.add_argument("--fed", type=Path, help="where the inputs go as they were fed")
    return parser


def answer(options: argparse.Namespace, load: Callable[[argparse.Namespace], Engine]) -> int:
    """Load the model, run what is asked for, answer on stdout; return the exit code."""
    answers = os.dup(1)
    os.dup2(2, 1)
    # Line by line, or the last words before a crash stay in the C library's buffer.
    libc = ctypes.CDLL(None)
    libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, 1, 0)
    try:
        said = _run(options, load)
    except RunError as error:
        said = {"error": _as_json(error)}
    with os.fdopen(answers, "w", encoding="utf-8") as out:
        out.write(json.dumps(said) + "\n")
    return 1 if "error" in said else 0


def _run(options: argparse.Namespace, load: Callable[[argparse.Namespace], Engine]) -> dict[str, Any]:
    engine = load(options)
    if options.batch is not None:
        names = sorted(file.name for file in options.batch.glob("*.npz"))
        return {**engine.facts, "runs": [_one_of_many(engine, options, name) for name in names]}
    given = None if options.input is None else read_tensors(options.input)
    fed = random_inputs(engine.inputs, options.seed) if given is None else fit_inputs(engine.inputs, given)
    outputs, facts = engine.run(fed)
    write_tensors(options.outputs, outputs)
    if options.fed is not None:
        write_tensors(options.fed, fed)
    return {
        **engine.facts,
        **facts,
        "inputs": {name: list(array.shape) for name, array in fed.items()},
        "outputs": {name: list(array.shape) for name, array in outputs.items()},
    }


def _one_of_many(engine: Engine, options: argparse.Namespace, name: str) -> dict[str, Any]:
    try:
        outputs, _ = engine.run(fit_inputs(engine.inputs, read_tensors(options.batch / name)))
    except RunError as error:
        return {"name": name, "error": _as_json(error)}
    write_tensors(options.outputs / name, outputs)
    return {"name": name}


def _as_json(error: RunError) -> dict[str, str]:
    return {"code": error.code, "message": str(error)}
