"""``llm_bench``: what its table, its JSON file and its older lines say. Pure.

The table's columns depend on the options and on the version, so every cell is found by its header and must look like
what its header promises; a line that does not is kept in ``unread`` and never becomes a number. Source of the formats:
MNN's ``llm_bench.cpp`` from 3.3 to 3.6.1, outputs of 3.6.1 in ``tests/data/mnn``, issues of older versions.

``counted`` is what makes a rate one: ``tgN`` and the older layouts divide the N tokens that were asked for by the time,
however many came out; ``ppN+tgM`` under ``speed(tok/s)`` divides by those that came out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from harness.runners.lines import Line

Phase = Literal["prefill", "decode", "both"]

_NUMBER = r"[-+]?(?:\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|nan|inf)(?:\(ind\))?"
# "±" in UTF-8, as mojibake, as a byte of another encoding, and in ASCII.
_PLUS_MINUS = r"(?:Â?±|\+/?-|\ufffd{1,2})"
_UNIT = r"(?:t|tok|token|tokens)/s"
_SPEED = re.compile(rf"(?P<tps>{_NUMBER})\s*{_PLUS_MINUS}\s*(?P<std>{_NUMBER})(?P<unit>\s*{_UNIT})?", re.IGNORECASE)
_BREAK = re.compile(r"<br\s*/?>")
_TEST = re.compile(r"(?:pp(?P<pp>\d{1,9}))?(?P<plus>\+)?(?:tg(?P<tg>\d{1,9}))?")
_DEMO_TEST = re.compile(r"prompt=(?P<pp>\d{1,9})<br\s*/?>decode=(?P<tg>\d{1,9})")
_OLD_LINE = re.compile(
    rf"[-*\s]{{0,4}}prompt\s*=\s*(?P<pp>\d{{1,9}})[\s,]+decode\s*=\s*(?P<tg>\d{{1,9}})[\s,:]+"
    rf"(?P<one>{_NUMBER})(?:\s*{_PLUS_MINUS}\s*(?P<std_one>{_NUMBER}))?"
    rf"(?:[\s,]+(?P<two>{_NUMBER})(?:\s*{_PLUS_MINUS}\s*(?P<std_two>{_NUMBER}))?)?(?:\s*{_UNIT})?",
    re.IGNORECASE,
)
# "pp64: 200.5 ± 1.5 t/s", as people copy rows out of a table.
_LOOSE = re.compile(r"((?:pp\d+\+)?tg\d+|pp\d+)\s*[:=]?\s+(\d.*/s)")
_OLD_LIKE = re.compile(r"[-*\s]{0,4}prompt\s*=\s*\d+[\s,]+decode\s*=\s*\d+")
_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>B|KiB|MiB|GiB|TiB)")
_SIZE_UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
# MNN prints the size of a file it could not open as 2**64 bytes.
_NO_FILE_BYTES = 2**60
_SEPARATOR = re.compile(r"\|(?:\s*:?-+:?\s*\|)+")
_TESTS, _SPEEDS = ("test", "llm_demo"), ("t/s", "speed(tok/s)")
_LOADING = "loadingTime(s)"
_INTEGER, _SWITCH, _LEVEL = r"\d{1,9}", r"true|false|on|off|0|1", r"Low|Normal|High"
_ALWAYS = ("model", "modelSize", "backend", "threads")
# What each column's cells look like.
_COLUMNS = {
    "model": r".*",
    "modelSize": _SIZE.pattern,
    "backend": r"[A-Za-z]\w*",
    "threads": _INTEGER,
    "precision": _LEVEL,
    "memory": _LEVEL,
    "power": _LEVEL,
    "dynamicOption": rf"{_INTEGER}|",
    "divisionRatioSme2Neon": _INTEGER,
    "smeCoreNum": _INTEGER,
    "quantKv": _INTEGER,
    "quantAttention": r"\d{1,9}|Int8 Q,K(?:,V)?|",
    "flashAttention": _SWITCH,
    "mmap": _SWITCH,
    "useMmap": _SWITCH,
    "test": _TEST.pattern,
    "llm_demo": _DEMO_TEST.pattern,
    "t/s": _SPEED.pattern,
    "speed(tok/s)": rf"{_SPEED.pattern}(?:{_BREAK.pattern}.+)?",
    _LOADING: rf"{_NUMBER}\s*{_PLUS_MINUS}\s*{_NUMBER}",
}
_CELLS = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in _COLUMNS.items()}
# Where several outputs lie in one file, a table does not reach into the next.
_NEW_OUTPUT = re.compile(r"# ?command:|config path is ")
# Written since -kv true means -pg, which counts the tokens that came out.
_COUNTS_NOTE = "-kv true is deprecated"


@dataclass(frozen=True)
class BenchSpeed:
    """One rate, tok/s. ``counted``: it was divided by tokens that came out, not by those that were asked for."""

    phase: Phase
    tps: float
    std: float | None
    counted: bool


@dataclass(frozen=True)
class BenchRow:
    """One test. ``model_size_bytes`` is the weight file's; ``weights_found`` is ``False`` when there was none to open.

    ``backend`` is the one that was asked for: the tool copies the option, it does not ask the engine. ``settings`` are
    the cells of all columns that have no field here. What the layout does not tell is ``None``.
    """

    test: str
    prompt_tokens: int
    generate_tokens: int
    speeds: tuple[BenchSpeed, ...]
    line: str
    model: str | None = None
    model_size_bytes: int | None = None
    weights_found: bool | None = None
    backend: str | None = None
    threads: int | None = None
    precision: str | None = None
    load_s: float | None = None
    load_std_s: float | None = None
    settings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class BenchLog:
    """Everything an output of ``llm_bench`` told. ``json_rows`` are those of the file that ``-j`` writes."""

    rows: tuple[BenchRow, ...] = ()
    json_rows: tuple[BenchRow, ...] = ()
    unread: tuple[str, ...] = ()
    usage: bool = False


def parse_bench(lines: Sequence[Line]) -> BenchLog:
    """Read an output; lines that are not of this tool are passed over, those that are and make no sense are unread."""
    counts = any(_COUNTS_NOTE in line.text for line in lines)
    rows: list[BenchRow] = []
    json_rows: list[BenchRow] = []
    unread: list[str] = []
    header: tuple[str, ...] | None = None
    for line in lines:
        text = line.text.strip()
        if text.startswith("|"):
            names = _header(text)
            if names is not None:
                header = names or None
                found: Sequence[BenchRow] | None = None if not names else ()
            elif header is not None and _separates(text, header):
                found = ()
            else:
                found = _table_row(text, header, counts)
        elif text.startswith("{") and '"results"' in text and '"model' in text:
            found = None
            parsed = _json_rows(text)
            if parsed is not None:
                json_rows += parsed
                found = ()
        else:
            header = None if _NEW_OUTPUT.match(text) else header
            loose = _LOOSE.fullmatch(text)
            found = _old_row(text) if loose is None else _bare_row(loose.groups(), text, counts)
        if found is None:
            unread.append(line.raw.strip()[:300])
        else:
            # Old versions print an empty test, pp0+tg0, for `-n 0`: nothing was measured there.
            rows += [row for row in found if row.prompt_tokens or row.generate_tokens]
    usage = any(line.text.lower().startswith("usage:") and "llm_bench" in line.text for line in lines)
    return BenchLog(tuple(rows), tuple(json_rows), tuple(unread), usage)


def _cells(text: str) -> list[str] | None:
    """Return the cells of a table line, ``None`` for one that is cut off."""
    return [cell.strip() for cell in text[1:-1].split("|")] if len(text) > 1 and text.endswith("|") else None


def _header(text: str) -> tuple[str, ...] | None:
    """Return the columns of a header line: ``()`` for one that is not understood, ``None`` for another line."""
    cells = _cells(text) or [cell.strip() for cell in text[1:].split("|")]
    if not any(cell in _SPEEDS or cell in _TESTS or cell == "modelSize" for cell in cells):
        return None
    names = set(cells)
    # Columns of newer versions, and those that people add, are no harm where the tool's own are all there.
    known = names <= set(_COLUMNS) or set(_ALWAYS) <= names
    whole = text.endswith("|") and len(names) == len(cells) and known
    pair = [sum(cell in group for cell in cells) for group in (_TESTS, _SPEEDS)]
    fits = pair == [1, 1] and not ("llm_demo" in names and "t/s" in names)
    return tuple(cells) if whole and fits else ()


def _separates(text: str, header: tuple[str, ...]) -> bool:
    return _SEPARATOR.fullmatch(text) is not None and text.count("|") == len(header) + 1


def _table_row(text: str, header: tuple[str, ...] | None, counts: bool) -> Sequence[BenchRow] | None:
    cells = _cells(text)
    if header is not None:
        if cells is None or len(cells) != len(header):
            return None
        row = _row(dict(zip(header, cells, strict=True)), text, counts)
        return None if row is None else (row,)
    looks = [cell.strip() for cell in text.strip("|").split("|")]
    if not any(_is_test(cell) or _SPEED.search(cell) for cell in looks):
        return ()
    return None if cells is None else _bare_row(cells, text, counts)


def _bare_row(cells: Sequence[str], text: str, counts: bool) -> Sequence[BenchRow] | None:
    """Return the row of a line without a header: it speaks for itself only as one test and one speed with its unit."""
    if len(cells) != 2 or not _is_test(cells[0]):
        return None
    speed = _SPEED.fullmatch(cells[1])
    if speed is None or not speed["unit"]:
        return None
    row = _row({"test": cells[0], "t/s": cells[1]}, text, counts)
    return None if row is None else (row,)


def _is_test(cell: str) -> bool:
    return bool(cell) and (_tokens(cell) is not None or _DEMO_TEST.fullmatch(cell) is not None)


def _tokens(cell: str) -> tuple[int, int] | None:
    """Return prompt and generated tokens of ``pp64``, ``tg16``, ``pp64+tg16`` or ``prompt=64<br>decode=16``."""
    match = _DEMO_TEST.fullmatch(cell) or _TEST.fullmatch(cell)
    if match is None or not cell:
        return None
    both = match["pp"] is not None and match["tg"] is not None
    if "plus" in match.groupdict() and (match["plus"] is not None) != both:
        return None
    return int(match["pp"] or 0), int(match["tg"] or 0)


def _row(cells: dict[str, str], text: str, counts: bool) -> BenchRow | None:
    if not all(_CELLS[name].fullmatch(cell) for name, cell in cells.items() if name in _CELLS):
        return None
    test = cells.get("test") or cells.get("llm_demo") or ""
    tokens = _tokens(test)
    speeds = None if tokens is None else _speeds(cells, *tokens, counts)
    if tokens is None or speeds is None:
        return None
    size = _size(cells.get("modelSize"))
    load = re.findall(_NUMBER, cells[_LOADING]) if _LOADING in cells else [None, None]
    named = {"model", "modelSize", "backend", "threads", "precision", *_TESTS, *_SPEEDS, _LOADING}
    return BenchRow(
        test=_BREAK.sub(" ", test),
        prompt_tokens=tokens[0],
        generate_tokens=tokens[1],
        speeds=speeds,
        line=text[:300],
        model=cells.get("model"),
        model_size_bytes=None if size is None or size >= _NO_FILE_BYTES else size or None,
        weights_found=None if not size else size < _NO_FILE_BYTES,
        backend=cells["backend"].lower() if "backend" in cells else None,
        threads=int(cells["threads"]) if "threads" in cells else None,
        precision=cells["precision"].lower() if "precision" in cells else None,
        load_s=_float(load[0]),
        load_std_s=_float(load[-1]),
        settings=tuple((name, cell) for name, cell in cells.items() if name not in named),
    )


def _speeds(cells: dict[str, str], prompt: int, generate: int, counts: bool) -> tuple[BenchSpeed, ...] | None:
    parts = _BREAK.split(cells.get("t/s") or cells.get("speed(tok/s)") or "")
    read = [_SPEED.fullmatch(part.strip()) for part in parts]
    rates = [(float(match["tps"].split("(")[0]), float(match["std"].split("(")[0])) for match in read if match]
    if len(rates) != len(parts):
        return None
    if len(rates) == 2 and prompt and generate and "speed(tok/s)" in cells:
        counted = counts or "test" in cells
        return BenchSpeed("prefill", *rates[0], True), BenchSpeed("decode", *rates[1], counted)
    if len(rates) != 1 or (prompt and generate and "t/s" not in cells):
        return None
    phase: Phase = "both" if prompt and generate else "prefill" if prompt else "decode"
    return (BenchSpeed(phase, *rates[0], phase == "prefill"),)


def _size(cell: str | None) -> int | None:
    match = _SIZE.fullmatch(cell) if cell is not None else None
    return None if match is None else int(float(match["number"]) * _SIZE_UNITS[match["unit"]])


def _float(text: str | None) -> float | None:
    return None if text is None else float(text.split("(")[0])


def _old_row(text: str) -> Sequence[BenchRow] | None:
    """Return the row of a line ``prompt=P decode=D [prefill] decode``; ``()`` when it is not one."""
    if not _OLD_LIKE.match(text):
        return ()
    match = _OLD_LINE.fullmatch(text)
    if match is None or not int(match["pp"]) or not int(match["tg"]):
        return None
    one = float(match["one"].split("(")[0]), _float(match["std_one"])
    speeds: tuple[BenchSpeed, ...] = (BenchSpeed("decode", *one, False),)
    if match["two"] is not None:
        two = float(match["two"].split("(")[0]), _float(match["std_two"])
        speeds = BenchSpeed("prefill", *one, True), BenchSpeed("decode", *two, False)
    test = f"prompt={match['pp']} decode={match['tg']}"
    return (BenchRow(test, int(match["pp"]), int(match["tg"]), speeds, text[:300]),)


def _json_rows(text: str) -> list[BenchRow] | None:
    """Return the rows of the file that ``-j`` writes, ``None`` when it is not whole.

    Its head is that of the first test alone: with swept options, what a row ran with is not told.
    """
    try:
        told = json.loads(text)
        results = told["results"]
        rows = [row for result in results for row in _json_row(told, result, text, len(results))]
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None
    return rows if rows else None


def _json_row(told: dict[str, Any], result: dict[str, Any], text: str, results: int) -> Iterator[BenchRow]:
    kind, prompt, generate = result["type"], result.get("prompt_len", 0), result.get("generate_len", 0)
    if {type(prompt), type(generate)} != {int} or min(prompt, generate) < 0:
        raise ValueError("token counts are whole numbers")
    if kind == "prefill_and_decode":
        # The key came after the version that began to count.
        counted = "flashAttention" in told
        speeds: tuple[BenchSpeed, ...] = (
            BenchSpeed("prefill", _rate(result["prefill_tps"]), _rate(result["prefill_std"]), True),
            BenchSpeed("decode", _rate(result["decode_tps"]), _rate(result["decode_std"]), counted),
        )
    else:
        phase: Phase = {"prefill": "prefill", "decode": "decode"}[kind]  # type: ignore[assignment]
        speeds = (BenchSpeed(phase, _rate(result["tps"]), _rate(result["std"]), phase == "prefill"),)
    test = "+".join(part for part, count in ((f"pp{prompt}", prompt), (f"tg{generate}", generate)) if count)
    size = int(float(told["modelSize"]) * 2**30)
    row = BenchRow(
        test=test,
        prompt_tokens=prompt,
        generate_tokens=generate,
        speeds=speeds,
        line=text[:300],
        model=str(told["model"]),
        model_size_bytes=size if 0 < size < _NO_FILE_BYTES else None,
        weights_found=None if not size else size < _NO_FILE_BYTES,
        backend=str(told["backend"]).lower(),
    )
    if results == 1:
        levels = {0: "normal", 1: "high", 2: "low"}
        row = replace(row, threads=int(told["threads"]), precision=levels.get(told["precision"]))
    yield row


def _rate(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("a rate is a number")
    return float(value)
