"""Cuts a text where a model's tokenizer makes exactly so many tokens of it. Runs in a process of its own.

The harness never imports this file: MNN prints at its import. What it prints goes to stderr; stdout gets one line of
JSON: ``{"text", "token_ids"}``, or ``{"nearest": [below, above]}`` where no cut gives that number, or ``{"error"}``.
The engine tokenizes only after it has loaded a model; any will do, as the tokenizer is a file of its own::

    python -m harness.runners._encode_prompt --model FOLDER --tokens 64 --text "…"
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

#: So many characters around the place that is looked for are tried, which is more than any one word's.
_AROUND = 24

Encode = Callable[[str], Sequence[int]]


def cut(encode: Encode, text: str, tokens: int) -> dict[str, Any]:
    """Return the cut of ``text``, repeated as needed, that is ``tokens`` long, by token ids what our runner feeds.

    Our runner repeats and cuts the ids themselves; a cut of the text that gives just these is preferred.
    """
    prefix, whole = list(encode("")), list(encode(text))
    body = whole[len(prefix) :]
    if not body:
        return {"error": "the tokenizer makes no tokens of the prompt text"}
    wanted = (prefix + body * (tokens // len(body) + 1))[:tokens]
    long = text * (tokens // len(body) + 2)
    low, high = 0, len(long)
    while low < high:  # the shortest cut with enough tokens: each character adds some, now and then it joins two
        middle = (low + high) // 2
        if len(encode(long[:middle])) < tokens:
            low = middle + 1
        else:
            high = middle
    fitting: list[tuple[int, str, list[int]]] = []
    counts: set[int] = set()
    for end in range(max(1, low - _AROUND), min(len(long), low + _AROUND) + 1):
        ids = list(encode(long[:end]))
        counts.add(len(ids))
        if ids == wanted:
            return {"text": long[:end], "token_ids": ids}
        if len(ids) == tokens:
            same = next((n for n, (one, other) in enumerate(zip(ids, wanted, strict=True)) if one != other), tokens)
            fitting.append((same, long[:end], ids))
    if not fitting:
        below, above = [n for n in counts if n < tokens], [n for n in counts if n > tokens]
        return {"nearest": [*([max(below)] if below else []), *([min(above)] if above else [])]}
    _, best, ids = max(fitting, key=lambda one: one[0])
    return {"text": best, "token_ids": ids}


def main(argv: Sequence[str]) -> int:
    """Cut as the arguments say."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", type=Path, required=True, help="a folder with the tokenizer and any loadable model")
    parser.add_argument("--tokens", type=int, required=True)
    parser.add_argument("--text", required=True)
    options = parser.parse_args(argv)
    answers = os.dup(1)
    os.dup2(2, 1)
    try:
        mnn = importlib.import_module("MNN")
        made = mnn.llm.create(str(options.model / "config.json"))
        engine = getattr(made, "_c_obj", made)  # some builds wrap it in a class that hides what load() says
        if engine.load():
            answer = cut(engine.tokenizer_encode, options.text, options.tokens)
        else:
            answer = {"error": "the engine did not load the tokenizer"}
    except ImportError as error:
        answer = {"error": f"the Python package MNN cannot be imported: {error}"}
    with os.fdopen(answers, "w", encoding="utf-8") as out:
        out.write(json.dumps(answer) + "\n")
    return 1 if "error" in answer else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
