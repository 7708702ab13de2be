"""The command line of farm_runner."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

#: Set by options of their own, or breaks the stepping: not to be given by ``--engine``.
OWN_KEYS = {
    "backend_type": "use --backend", "thread_num": "use --threads", "precision": "use --precision",
    "memory": "use --memory", "tmp_path": "use --work-dir", "sampler_type": "the runner is always greedy",
    "speculative_type": "the runner steps token by token", "chunk_limits": "the runner needs unpadded logits",
    "reuse_kv": "each generation starts with an empty context", "llm_model": "use --model", "llm_weight": "use --model",
    "base_dir": "use --model",
}  # fmt: skip
TEXT = (
    "On the first day of the long walk they followed the river to the east, past quiet mills and gardens full of late "
    "apples. Somebody had painted small white arrows on the stones, and nobody could say who had done it. In the "
    "evening they counted the bridges they had crossed, wrote the number into a green book, and argued about whether "
    "the narrow plank behind the school should be called a bridge at all. "
)


class Parser(argparse.ArgumentParser):
    """Says in one sentence what is wrong."""

    def error(self, message: str) -> NoReturn:
        sys.stderr.write(f"farm_runner: {message} (--help lists the options)\n")
        raise SystemExit(2)


def parse_options(argv: Sequence[str], description: str) -> argparse.Namespace:
    parser = Parser(prog="farm_runner", description=description, allow_abbrev=False)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--model", type=Path, help="MNN model folder, or its config.json")
    what.add_argument("--tensor", type=Path, metavar="MODEL.mnn", help="a model that is no language model")
    parser.add_argument("--inputs", type=Path, metavar="DIR", help="of --tensor: index.json, and samples as raw files")
    parser.add_argument("--outputs", type=Path, metavar="DIR", help="of --tensor: where the outputs go, as raw files")
    parser.add_argument("--backend", choices=("cpu", "opencl", "vulkan"), default="cpu")
    parser.add_argument("--threads", type=at_least(1), default=4, help="threads; for a GPU its mode mask, passed on")
    parser.add_argument("--precision", choices=("low", "normal", "high"), default="low")
    parser.add_argument("--memory", choices=("low", "normal", "high"), default="low")
    parser.add_argument("--engine", action="append", default=[], metavar="KEY=JSON", type=engine_key)
    parser.add_argument("--prompt-tokens", type=at_least(1), default=64)
    parser.add_argument("--generate-tokens", type=at_least(1), default=32)
    parser.add_argument("--context-tokens", type=at_least(0), default=0, help="history before each timed prompt")
    parser.add_argument("--warmups", type=at_least(0), default=1)
    parser.add_argument("--repeats", type=at_least(0), default=5)
    parser.add_argument("--cv-limit", type=above_zero, help="repeat while decode spreads more (deviation / mean) ...")
    parser.add_argument("--max-repeats", type=at_least(0), help="... up to so many timed generations")
    parser.add_argument("--duration-s", type=above_zero, help="timed generations for so long, whatever --repeats says")
    parser.add_argument("--load-rounds", type=at_least(1), default=1, help="load so often; the last one is used")
    parser.add_argument("--prompt-text", default=TEXT, help="what the timed prompt is cut from, repeated as needed")
    parser.add_argument("--ask", action="append", default=[], type=question, metavar="TEXT", help=question.__doc__)
    parser.add_argument("--ask-file", type=question_file, default=[], help="a file with one such question a line")
    parser.add_argument("--ask-tokens", type=at_least(1), default=64, help="longest answer to a plain --ask TEXT")
    parser.add_argument(
        "--require-backend", action="store_true", help="time nothing when the engine took another backend"
    )
    parser.add_argument(
        "--margins",
        action="store_true",
        help="tell of every token which ones came nearest and how far behind; costs time, so the engine's own loop is "
        "left out",
    )
    parser.add_argument("--work-dir", type=Path, help="fresh folder for the engine's caches (default: the current one)")
    options = parser.parse_args(argv)
    if (options.tensor is None) != (options.inputs is None) or (options.tensor is None) != (options.outputs is None):
        parser.error("--tensor, --inputs and --outputs belong together")
    options.ask = [*options.ask, *options.ask_file]
    return options


def at_least(least: int) -> Any:
    def number(text: str) -> int:
        with contextlib.suppress(ValueError):
            if int(text) >= least:
                return int(text)
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")

    return number


def above_zero(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 < float(text) < float("inf"):
            return float(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")


def question_file(path: str) -> list[tuple[str, int | None]]:
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{path} cannot be read: {error}") from None
    return [question(line) for line in lines if line.strip()]


def question(text: str) -> tuple[str, int | None]:
    """a question answered after the timed generations: text, or {"text": ..., "tokens": longest answer}"""
    with contextlib.suppress(ValueError):
        value = json.loads(text)
        if isinstance(value, dict) and isinstance(value.get("text"), str):
            tokens = value.get("tokens")
            if tokens is None or (type(tokens) is int and tokens > 0):
                return value["text"], tokens
            raise argparse.ArgumentTypeError(f"tokens in {text!r} is not a whole number of at least 1")
    return text, None


def engine_key(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=JSON")
    if key in OWN_KEYS:
        raise argparse.ArgumentTypeError(f"{key} cannot be set here: {OWN_KEYS[key]}")
    try:
        return key, json.loads(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"the value of {key} is not JSON: {value!r}") from None
