"""The one chart: decode speed by threads. Built from ``ok`` cells only."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pandas as pd
import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from harness.core.reasons import Verdict
from harness.report.cells import phone_labels
from harness.report.frames import cells_frame
from harness.report.text import backend_name, distinct, number, one_line, plural
from harness.store.schema import CellRecord

# Readable on white and on near-black, and for the colour-blind; one colour a phone.
_COLOURS: Final = ("#0f7fc0", "#d9660f", "#0f9d76", "#c05a9e", "#a88a00", "#7a6fd0", "#3aa0b5", "#b0563f")
# Within a phone; plain dashes are kept for what has no threads.
_DASHES: Final = ("solid", "dot", "dashdot", "longdash")
_SYMBOLS: Final = ("circle", "square", "diamond", "triangle-up", "x", "triangle-down", "star", "cross")

_LEGEND_BELOW: Final = 12

# What may tell two lines of a phone apart, with how the legend says it.
_DIMENSIONS: Final = (
    ("model", "{}"),
    ("precision", "{}"),
    ("memory", "memory {}"),
    ("kind", "{}"),
    ("prompt_tokens", "p{}"),
    ("generate_tokens", "g{}"),
    ("context_tokens", "context {}"),
    ("affinity", "affinity {}"),
    ("engine_config", "{}"),
    ("bundle", "{}"),
    ("runner", "{}"),
    ("context", "{}"),
)
# Named even when all lines share it.
_ALWAYS: Final = "precision"


class Point(NamedTuple):
    """One ``ok`` cell in the chart; speeds in tok/s, ``threads`` as asked."""

    series: str
    threads: int
    tps: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Chart:
    """The chart, or why there is none. ``figure`` is plotly's JSON, ``points`` the same figures for a table."""

    figure: str | None
    points: tuple[Point, ...]
    says: str


def speed_chart(records: Sequence[CellRecord]) -> Chart:
    """Return decode speed by threads: a line per phone and precision, a dashed one for a GPU, which has no threads."""
    if not records:
        return Chart(None, (), "There is no chart: no cell was run.")
    ok = [record for record in records if record.verdict is Verdict.OK]
    if not ok:
        return Chart(None, (), f"There is no chart: none of {plural(len(records), 'cell')} is ok.")
    ok = [record for record in ok if record.metrics is not None and record.metrics.decode_tps is not None]
    if not ok:
        return Chart(None, (), "There is no chart of decode speed: no cell generated text.")
    frame = cells_frame(ok)
    labels = phone_labels(records)
    varying = [name for name, _ in _DIMENSIONS if name == _ALWAYS or frame[name].nunique(dropna=False) > 1]
    colours = {phone: _COLOURS[n % len(_COLOURS)] for n, phone in enumerate(distinct(frame["phone_id"]))}
    threads = sorted({int(count) for count in frame["threads"][frame["backend_actual"] == "cpu"]})
    span = (threads[0], threads[-1]) if threads else (1, 4)
    figure, points = go.Figure(), list[Point]()
    seen: dict[str, int] = {}
    for keys, group in frame.groupby(["phone_id", "backend_actual", *varying], sort=False, dropna=False):
        phone, backend, values = str(keys[0]), str(keys[1]), keys[2:]
        name = _name(labels[phone], backend, dict(zip(varying, values, strict=True)))
        nth = seen[phone] = seen.get(phone, -1) + 1
        points += [_point(name, row) for row in group.sort_values("threads").to_dict("records")]
        if backend == "cpu":
            figure.add_trace(_line(name, group.sort_values("threads"), colours[phone], nth))
        else:
            for tps in group["decode_tps"]:
                figure.add_trace(_level(name, float(tps), span, colours[phone]))
    figure.update_layout(_layout(threads, len(figure.data)))
    says = f"Decode speed in {plural(len(ok), 'ok cell')} on {plural(len(colours), 'phone')}, by threads."
    return Chart(figure.to_json(), tuple(points), says)


def _name(phone: str, backend: str, values: dict[str, Any]) -> str:
    said = [form.format(one_line(str(values[key]))) for key, form in _DIMENSIONS if key in values and _set(values[key])]
    return " · ".join([phone, *([] if backend == "cpu" else [backend_name(backend)]), *said])


def _set(value: Any) -> bool:
    return not pd.isna(value)


def _point(name: str, row: dict[Any, Any]) -> Point:
    low, high = row["decode_ci95_low_tps"], row["decode_ci95_high_tps"]
    return Point(
        name,
        int(row["threads"]),
        float(row["decode_tps"]),
        float(low) if _set(low) else None,
        float(high) if _set(high) else None,
    )


def _line(name: str, group: pd.DataFrame, colour: str, nth: int) -> go.Scatter:
    speeds = [float(value) for value in group["decode_tps"]]
    above = _arms(group["decode_ci95_high_tps"], speeds, 1)
    below = _arms(group["decode_ci95_low_tps"], speeds, -1)
    return go.Scatter(
        x=[int(value) for value in group["threads"]],
        y=speeds,
        name=_plotly_text(name),
        mode="lines+markers",
        line={"color": colour, "width": 2, "dash": _DASHES[nth % len(_DASHES)]},
        marker={"size": 8, "symbol": _SYMBOLS[nth % len(_SYMBOLS)]},
        error_y={"type": "data", "array": above, "arrayminus": below, "thickness": 1.2, "width": 4},
        hovertemplate="%{x} threads: %{y:.3g} tok/s<extra>%{fullData.name}</extra>",
    )


def _arms(ends: pd.Series, speeds: Sequence[float], sign: int) -> list[float]:
    """Return how far each interval reaches; 0 draws nothing where there is no interval."""
    return [
        max(0.0, sign * (float(end) - speed)) if _set(end) else 0.0 for end, speed in zip(ends, speeds, strict=True)
    ]


def _level(name: str, tps: float, span: tuple[int, int], colour: str) -> go.Scatter:
    first, last = span if span[0] < span[1] else (span[0] - 1, span[1] + 1)
    return go.Scatter(
        x=[first, last],
        y=[tps, tps],
        name=_plotly_text(name),
        mode="lines",
        line={"color": colour, "width": 2, "dash": "dash"},
        hovertemplate="%{y:.3g} tok/s<extra>%{fullData.name}</extra>",
    )


def _layout(threads: Sequence[int], lines: int) -> dict[str, Any]:
    crowded = lines > _LEGEND_BELOW
    axis = {"zeroline": False, "showline": True, "ticks": "outside", "fixedrange": True}
    return {
        "template": "none",
        "height": 560 if crowded else 420,
        "margin": {"l": 64, "r": 16, "t": 12, "b": 52},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "system-ui, sans-serif", "size": 13},
        "showlegend": True,
        # Beside the plot it scrolls; below it, many lines would leave no room for the plot.
        "legend": {} if crowded else {"orientation": "h", "y": -0.2, "x": 0, "xanchor": "left", "yanchor": "top"},
        "hovermode": "closest",
        "xaxis": {
            **axis,
            "title": {"text": "CPU threads"},
            "tickvals": list(threads),
            "showticklabels": bool(threads),
            "showgrid": False,
        },
        "yaxis": {**axis, "title": {"text": "decode speed, tok/s"}, "rangemode": "tozero"},
    }


def _plotly_text(text: str) -> str:
    """Return ``text`` so that plotly, which knows a little HTML, shows it letter by letter."""
    return html.escape(text, quote=False)


def interval(point: Point) -> str:
    """Return the 95 % interval of a point for the table, or a dash."""
    return "—" if point.low is None or point.high is None else f"{number(point.low)} to {number(point.high)}"


def for_script(json_text: str) -> str:
    """Return JSON that can stand inside a ``script`` element: no character of it can end or confuse one."""
    text = json.dumps(json.loads(json_text), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def plotly_source() -> str:
    """Return plotly's JavaScript, whole, to be inlined.

    Raises:
        ValueError: it could end the script element that holds it.
    """
    source: str = get_plotlyjs()
    if "</script" in source.lower() or "<!--" in source:
        raise ValueError("plotly's JavaScript cannot be inlined: it holds a tag of its own")
    return source
