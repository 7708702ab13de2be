"""``llm_demo``: its times, its summary and the text that the model wrote. Pure.

Formats: MNN's ``llm_demo.cpp`` from 3.0 to 3.6.1 (times and spaces vary), outputs of 3.6.1 in ``tests/data/mnn``.
The text goes to stdout without a mark of its own: it is what stands between the prompt file's line and the ruler and
is no line of the engine. Speeds may be ``nan`` or ``inf``; they are given as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.runners.lines import Line

_NUMBER = r"[-+]?(?:\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|nan|inf)(?:\(\w+\))?"
# Fields of the summary: key, unit.
_FIELDS = {
    "prompt tokens num": "",
    "decode tokens num": "",
    "prefill time": "s",
    "decode time": "s",
    "sample time": "s",
    "prefill speed": "tok/s",
    "decode speed": "tok/s",
}
_FIELD = re.compile(
    rf"\s*(?P<key>{'|'.join(_FIELDS)})\s*=\s*(?P<value>{_NUMBER})\s*(?P<unit>s|ms|us|tok/s|token/s|tokens/s|)\s*",
    re.IGNORECASE,
)
_FIELD_LIKE = re.compile(rf"\s*(?:{'|'.join(_FIELDS)})\s*=", re.IGNORECASE)
# Fields of the summary that tell nothing about language.
_OTHER = re.compile(r"\s*(?:vision (?:time|speed)|pixels_mp|audio(?: \w+)*(?: time| RTF))\s*=")
_COST = re.compile(r"main, \d+, cost time: (?P<ms>[\d.]+) ms")
_RULER = re.compile(r"\s*#{20,}\s*")
_PROMPT_FILE = "prompt file is "
_CONFIG = "config path is "
_USAGE = re.compile(r"usage: \S*llm_demo\b", re.IGNORECASE)
# What the tool and the engine print around an answer.
_ENGINE = re.compile(
    r"\[Error\]|\[Warning\]|\[MNN|Can't |Don't |Load Cache|Update cache|The device supports?|Prepare for tuning|"
    r"LLM init|LLM in|Set not thinking|ReadQuanData|Memory not Enough|Create \w+ error|code=\d+ in |Invalidate buffer|"
    r"Memory alloc|Cache invalid|OpenCL |CL ERROR|LLVM ERROR|File not exist|Unable to open|load tokenizer|"
    r"tokenizer_type|main, \d+, cost time|config path is |prompt file is |load \S+\.mnn|Compute Shape|"
    r"(?:The Creator |Vulkan )?[Dd]on't support|beyond cl_image|Error: |Build program|getKernel: |"
    r"CPU Group: |Segmentation fault|Aborted|Killed|Usage: |User: $"
)
# The engine's words behind a piece of the answer on the same line.
_EMBEDDED = re.compile(r"\[Error\]: |CL ERROR CODE :|LLVM ERROR: ")


@dataclass(frozen=True)
class DemoLog:
    """One run. Counts are sums over all lines of the prompt file; ``None`` is what the output does not tell.

    ``text`` is what the model wrote; ``text_seen`` is ``False`` when this output cannot hold it (a phone's log).
    ``unread`` are lines of a summary that could not be read.
    """

    load_ms: float | None = None
    tuning_ms: float | None = None
    prompt_tokens: int | None = None
    decode_tokens: int | None = None
    prefill_s: float | None = None
    decode_s: float | None = None
    sample_s: float | None = None
    prefill_tps: float | None = None
    decode_tps: float | None = None
    text: str = ""
    text_seen: bool = True
    summary: bool = False
    usage: bool = False
    unread: tuple[str, ...] = ()


def parse_demo(lines: Sequence[Line]) -> tuple[DemoLog, ...]:
    """Read an output; one log per run, none when nothing in it is of this tool."""
    runs = [log for part in _runs(lines) if (log := _parse_run(part)) is not None]
    return tuple(runs)


def _runs(lines: Sequence[Line]) -> Iterator[list[Line]]:
    """Split where another run begins: at its first word, or at a count that was told already."""
    part: list[Line] = []
    counted = False
    for line in lines:
        again = _CONFIG in line.text or (counted and line.text.lstrip().startswith("prompt tokens num"))
        if again and part:
            yield part
            part, counted = [], False
        counted = counted or line.text.lstrip().startswith("prompt tokens num")
        part.append(line)
    yield part


def _parse_run(lines: Sequence[Line]) -> DemoLog | None:
    values: dict[str, float] = {}
    unread = []
    for line in lines:
        match = _FIELD.fullmatch(line.text)
        if match is not None and _unit_fits(match) and match["key"].lower() not in values:
            values[match["key"].lower()] = float(match["value"].split("(")[0])
        elif _FIELD_LIKE.match(line.text):
            unread.append(line.raw.strip()[:300])
    costs = [float(match["ms"]) for line in lines if (match := _COST.search(line.text))]
    usage = any(_USAGE.search(line.text) for line in lines)
    begun = any(line.text.startswith((_CONFIG, _PROMPT_FILE)) for line in lines)
    if not (values or unread or usage or begun):
        return None
    text = answer(lines)
    prompt, decode = values.get("prompt tokens num"), values.get("decode tokens num")
    return DemoLog(
        load_ms=costs[0] if costs else None,
        tuning_ms=costs[1] if len(costs) > 1 else None,
        prompt_tokens=None if prompt is None else int(prompt),
        decode_tokens=None if decode is None else int(decode),
        prefill_s=values.get("prefill time"),
        decode_s=values.get("decode time"),
        sample_s=values.get("sample time"),
        prefill_tps=values.get("prefill speed"),
        decode_tps=values.get("decode speed"),
        text=text,
        text_seen=bool(text) or any(line.tag is None and _FIELD_LIKE.match(line.text) for line in lines),
        summary=bool(values),
        usage=usage,
        unread=tuple(unread),
    )


def _unit_fits(match: re.Match[str]) -> bool:
    wanted = _FIELDS[match["key"].lower()]
    unit = match["unit"].lower()
    if not wanted:
        return not unit and match["value"].isdigit()
    return unit == "s" if wanted == "s" else unit in ("tok/s", "token/s", "tokens/s")


def answer(lines: Sequence[Line]) -> str:
    """Return the text that is no line of a tool, of the engine, of a log or of a person beside it.

    Where the tool says from where to where it is (a prompt file's line, a ruler), only what lies between counts.
    """
    begin = next((place for place, line in enumerate(lines) if line.text.startswith(_PROMPT_FILE)), -1) + 1
    end = next((place for place, line in enumerate(lines[begin:], begin) if _RULER.fullmatch(line.text)), len(lines))
    if not begin and any(_FIELD_LIKE.match(line.text) for line in lines[:end]):
        end = len(lines)
    kept = [line.text for line in lines[begin:end] if not is_machine(line)]
    return "\n".join(kept).strip()


def is_machine(line: Line) -> bool:
    """Whether a line is one of the tool, the engine, a log or a person beside it, and not of the model."""
    text = line.text
    if line.tag is not None or line.comment is not None or _RULER.fullmatch(text) or _EMBEDDED.search(text):
        return True
    return any(pattern.match(text) for pattern in (_FIELD_LIKE, _OTHER, _ENGINE))
