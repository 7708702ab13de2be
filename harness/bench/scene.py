"""An output of one of MNN's tools, read by every parser: what the rules about it look at. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from harness.bench.asked import Asked, command_of, read_asked
from harness.bench.engine_log import FallbackMark, find_compiled, find_fallback, find_mixed
from harness.bench.figures import Figure, app_figures, bench_figures, demo_figures, tool_figures
from harness.runners.lines import Line, read_lines
from harness.runners.llm_bench import BenchLog, parse_bench
from harness.runners.llm_demo import DemoLog, answer, parse_demo
from harness.runners.mnn_app import parse_app
from harness.runners.mnn_tools import BACKEND_CODES, ToolLog, parse_tools

# An engine that was asked for the CPU opens no such file (llm.cpp, since 3.1).
_GPU_CACHE = "mnn_cachefile.bin"
_GOES_ON = "\\"
_KEY = re.compile(r"[A-Za-z][\w-]*: ")


@dataclass(frozen=True)
class Scene:
    """Everything that rules look at.

    ``log`` is what the engine and the system said, without what the model wrote and what people noted; ``text`` is what
    the model wrote. ``unread`` are lines that look like figures and are not understood, ``contradictions`` those of
    the JSON file that differ from the table.
    """

    lines: tuple[Line, ...]
    log: bytes
    text: str
    asked: Asked
    bench: BenchLog
    demos: tuple[DemoLog, ...]
    tools: ToolLog
    figures: tuple[Figure, ...]
    unread: tuple[str, ...]
    contradictions: tuple[str, ...]
    cv_limit: float

    @cached_property
    def mixed(self) -> list[str]:
        """The lines that name operators which were left to the CPU."""
        return find_mixed(self.log)

    @cached_property
    def compiled(self) -> str | None:
        """The line in which a GPU's runtime wrote down the kernels that it compiled."""
        return find_compiled(self.log)

    @cached_property
    def _admissions(self) -> bytes:
        """The lines that admit a fallback: a log may be long, and every figure asks for its own backend."""
        return b"\n".join(line for line in self.log.splitlines() if find_fallback(line) is not None)

    def fallback(self, asked: str | None = None) -> FallbackMark | None:
        """Return the line that admits a fallback to another backend than ``asked``."""
        return find_fallback(self._admissions, asked)

    @property
    def known(self) -> bool:
        """Whether any of MNN's tools was recognised."""
        return bool(self.figures or self.demos or self.unread or self.asked.tool) or self.tools != ToolLog()

    @property
    def usage(self) -> bool:
        """Whether a tool explained its options instead of doing anything."""
        return self.bench.usage or self.tools.usage or any(demo.usage for demo in self.demos)

    @property
    def wanted_a_gpu(self) -> bool:
        """Whether the engine looked for a GPU's compiled kernels: its config names another backend than the CPU."""
        return any(_GPU_CACHE in line.text for line in self.lines if line.comment is None)

    def asked_backend(self, figure: Figure) -> str | None:
        """Return the backend that was asked for where this figure comes from; ``None`` when nobody tells."""
        asked = self.asked.backends
        if figure.label is None:
            return asked[0] if asked else None
        if not asked or figure.label in asked:
            return figure.label
        rows = {other.label for other in self.figures}
        return next((name for name in asked if name not in rows), asked[0])


def read_scenes(output: bytes | str, asked: Asked, cv_limit: float) -> tuple[Scene, ...]:
    """Read an output: one scene per command, as a transcript of a shell holds several.

    What ``asked`` does not tell is taken from the command line and the notes in it.
    """
    parts: list[list[Line]] = [[]]
    commanded = False
    for line in _joined(_without_head(read_lines(output))):
        if command_of(line) is not None:
            if commanded:
                parts.append([])
            commanded = True
        parts[-1].append(line)
    return tuple(_read_scene(tuple(part), asked, cv_limit) for part in parts)


def _joined(lines: Sequence[Line]) -> Iterator[Line]:
    """Yield the lines, those of a command that goes on after a backslash as one."""
    begun: Line | None = None
    for line in lines:
        if begun is not None:
            line = Line(f"{begun.text.rstrip(_GOES_ON)} {line.text}", None, f"{begun.raw} {line.raw}")
            begun = None
        if line.text.endswith(_GOES_ON) and command_of(line) is not None:
            begun = line
        else:
            yield line
    if begun is not None:
        yield begun


def _read_scene(lines: tuple[Line, ...], asked: Asked, cv_limit: float) -> Scene:
    bench, demos, tools = parse_bench(lines), parse_demo(lines), parse_tools(lines)
    of_bench, contradictions = bench_figures(bench)
    written = {text for demo in demos for text in demo.text.split("\n")}
    log = [line.raw for line in lines if line.comment is None and (line.tag is not None or line.text not in written)]
    return Scene(
        lines=lines,
        log="\n".join(log).encode("utf-8", "replace"),
        text="\n".join(demo.text for demo in demos) if demos else answer(lines),
        asked=_all_asked(asked, read_asked(lines), tools),
        bench=bench,
        demos=demos,
        tools=tools,
        figures=of_bench + demo_figures(demos) + tool_figures(tools) + _of_apps(lines, demos),
        unread=bench.unread + tools.unread + tuple(line for demo in demos for line in demo.unread),
        contradictions=contradictions,
        cv_limit=cv_limit,
    )


def _of_apps(lines: tuple[Line, ...], demos: tuple[DemoLog, ...]) -> tuple[Figure, ...]:
    """Return the figures of apps; a summary of ``llm_demo`` says "decode speed", too, and is read as that."""
    return () if any(demo.summary for demo in demos) else app_figures(parse_app(lines))


def _without_head(lines: tuple[Line, ...]) -> tuple[Line, ...]:
    """Leave out what a catalogue wrote above an output: ``key: value`` lines up to a line ``---``."""
    head = next((place for place, line in enumerate(lines) if line.text.strip() == "---"), 0)
    return lines[head + 1 :] if head and all(_KEY.match(line.text) for line in lines[:head]) else lines


def _all_asked(given: Asked, told: Asked, tools: ToolLog) -> Asked:
    """Put together what the caller, the command line with the notes, and the tool itself tell, in that order."""
    code = tools.forward_type
    repeated = () if code is None else (BACKEND_CODES.get(code, f"type {code}"),)
    return replace(
        told,
        tool=given.tool or told.tool,
        backends=given.backends or told.backends or repeated,
        repeats=told.repeats if given.repeats is None else given.repeats,
        exit_code=told.exit_code if given.exit_code is None else given.exit_code,
        generated=given.generated or told.generated,
    )
