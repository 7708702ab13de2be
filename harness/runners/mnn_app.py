"""Speeds as MNN's apps show and log them, and as people copy them: ``Decode: 31.2 ± 0.8 t/s``. Pure.

Formats: MnnLlmChat's benchmark page, its line below an answer and its ``PERF`` log line, the iOS app's ``[MNN_BENCH]``
lines. The benchmark page divides the tokens that were asked for by the time; the others tell how many came out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.runners.lines import Line

_N = r"[-+]?(?:\d+(?:\.\d*)?|nan|inf(?:inity)?|∞)"
_UNIT = r"\s*(?:t|tok|token|tokens)/s"
# Bullets, bold marks and pictures before a label; the spread may stand before the unit or behind it.
_LABELLED = re.compile(
    rf"[^\w\s]*\s*[^\w\s]*(?P<phase>prefill|decode)(?:\s+speed)?[\s*_]*[:=]?[\s*_]*(?P<tps>{_N})"
    rf"(?:\s*±\s*(?P<std>{_N}))?{_UNIT}(?:\s*±\s*(?P<after>{_N}))?[\s*_]*",
    re.IGNORECASE,
)
# "Prefill: 0.50s, 64 tokens, 128.00 tokens/s" and "prefill: 64 tok in 0.50s (128.0 t/s)".
_COUNTED = re.compile(
    rf"(?P<phase>prefill|decode):\s*(?:(?P<s1>\d+(?:\.\d+)?)s, (?P<n1>\d{{1,9}}) tokens, (?P<t1>{_N}){_UNIT}"
    rf"|(?P<n2>\d{{1,9}}) tok in (?P<s2>\d+(?:\.\d+)?)s \((?P<t2>{_N}){_UNIT}\))",
    re.IGNORECASE,
)
_BENCH = re.compile(
    rf"\[MNN_BENCH\] (?:avg|run=\d+) .*?prompt=(?P<pp>\d{{1,9}}) decode=(?P<tg>\d{{1,9}}) "
    rf"prefill_tok_s=(?P<prefill>{_N}) decode_tok_s=(?P<decode>{_N})\s*"
)


@dataclass(frozen=True)
class AppSpeed:
    """One speed, tok/s. ``tokens`` and ``took_s`` are ``None`` where it is not told what came out and how long it took.

    ``asked`` is the number of tokens that was asked for, where that is told instead.
    """

    phase: Literal["prefill", "decode"]
    tps: float
    std: float | None
    tokens: int | None
    took_s: float | None
    line: str
    asked: int | None = None


def parse_app(lines: Sequence[Line]) -> tuple[AppSpeed, ...]:
    """Return every speed that an app showed or logged, in order."""
    return tuple(speed for line in lines if line.comment is None for speed in _speeds(line.text.strip()))


def _speeds(text: str) -> Iterator[AppSpeed]:
    shown = text[:300]
    bench = _BENCH.fullmatch(text)
    if bench is not None:
        yield AppSpeed("prefill", _number(bench["prefill"]), None, int(bench["pp"]), None, shown)
        yield AppSpeed("decode", _number(bench["decode"]), None, None, None, shown, int(bench["tg"]))
        return
    for match in _COUNTED.finditer(text):
        tokens, took_s, tps = match["n1"] or match["n2"], match["s1"] or match["s2"], match["t1"] or match["t2"]
        yield AppSpeed(_phase(match), _number(tps), None, int(tokens), float(took_s), shown)
    labelled = _LABELLED.fullmatch(text)
    if labelled is not None:
        std = labelled["std"] or labelled["after"]
        yield AppSpeed(
            _phase(labelled), _number(labelled["tps"]), None if std is None else _number(std), None, None, shown
        )


def _phase(match: re.Match[str]) -> Literal["prefill", "decode"]:
    return "prefill" if match["phase"].lower() == "prefill" else "decode"


def _number(text: str) -> float:
    return float(text.replace("∞", "inf"))
