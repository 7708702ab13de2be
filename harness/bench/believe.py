"""Which figures of MNN's own tools may be believed, from their output alone. Pure.

MNN's tools exit with 0 after nearly every failure, copy the backend that they were asked for into their tables, and
divide tokens that were asked for by the time of those that came out. So a figure is believed only if no rule of
:mod:`harness.bench.tool_rules` speaks against it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.bench.asked import Asked
from harness.bench.evidence import Objection
from harness.bench.figures import Figure
from harness.bench.scene import Scene, read_scenes
from harness.bench.tool_rules import FIGURE_RULES, WHOLE_RULES
from harness.bench.wording import degenerate
from harness.core.reasons import Reason, Verdict

# Standard deviation as a share of the mean: what repeats on an idle phone stay well below.
CV_LIMIT = 0.10
_WHOLE = "whole output"


@dataclass(frozen=True)
class Judged:
    """A verdict on one figure, or on the whole output. ``reason`` is ``None`` when it is believed.

    ``detail`` is one clause for people, ``evidence`` the line that it stands on.
    """

    name: str
    value: float | None
    unit: str
    reason: Reason | None
    detail: str
    evidence: str = ""

    @property
    def verdict(self) -> Verdict:
        """The verdict that the reason belongs to."""
        return Verdict.OK if self.reason is None else self.reason.verdict


@dataclass(frozen=True)
class Belief:
    """What is thought of one output: of the whole, and of each figure in it."""

    whole: Judged
    figures: tuple[Judged, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether all of it may be believed."""
        return self.whole.reason is None


def believe(output: bytes | str, asked: Asked | None = None, cv_limit: float = CV_LIMIT) -> Belief:
    """Judge an output of one of MNN's tools, with the phone's log in it or not.

    What ``asked`` does not tell is read from the command line and the notes in the output itself. Of several commands
    in one transcript each is judged by itself.
    """
    beliefs = [_believe(scene) for scene in read_scenes(output, asked or Asked(), cv_limit)]
    figures = tuple(figure for belief in beliefs for figure in belief.figures)
    bad = sorted((belief.whole for belief in beliefs if not belief.ok), key=_weight)
    if bad or len(beliefs) == 1:
        return Belief(bad[0] if bad else beliefs[0].whole, figures)
    return Belief(_fine(figures), figures)


def _believe(scene: Scene) -> Belief:
    broken = next((objection for rule in WHOLE_RULES if (objection := rule(scene)) is not None), None)
    figures = [_judge(figure, scene, broken) for figure in scene.figures]
    figures += _odd_lines(scene, broken)
    figures += _noted_texts(scene)
    return Belief(_whole(scene, figures, broken), tuple(figures))


def _judge(figure: Figure, scene: Scene, broken: Objection | None) -> Judged:
    objection = broken
    if objection is None:
        objection = next((found for rule in FIGURE_RULES if (found := rule(figure, scene)) is not None), None)
    if objection is None:
        return Judged(figure.name, figure.value, figure.unit, None, _in_favour(figure, scene), figure.evidence)
    return Judged(figure.name, figure.value, figure.unit, objection.reason, objection.detail, objection.evidence)


def _in_favour(figure: Figure, scene: Scene) -> str:
    """Return what is known of a believed figure, and what is not."""
    if figure.phase == "comparison":
        return "every tensor was compared"
    says = []
    if figure.limits is not None:
        says.append(f"{figure.limits[0]:g} to {figure.limits[1]:g} {figure.unit}")
    if figure.spread is not None:
        says.append(f"spread {figure.spread:.1%}" if scene.asked.repeats != 1 else "one run: no spread is known")
    if figure.made is not None:
        says.append(f"the engine made {figure.made}")
    elif scene.asked_backend(figure) is None:
        says.append("which backend was asked for is not told, and no other than the CPU is spoken of")
    elif figure.phase != "latency" and scene.asked_backend(figure) != "cpu" and scene.compiled is not None:
        held = ": a prefill that was measured once may hold that time" if figure.phase == "prefill" else ""
        says.append(f"a GPU's runtime compiled its kernels in this run{held}")
    if figure.phase == "latency":
        says.append(_of_output(scene))
    elif figure.text is None:
        says.append("the output was not seen: this tool prints no text, or it went elsewhere")
    else:
        says.append(f"{figure.tokens} tokens counted in one run, so that no spread is known; the text is language")
    return "; ".join(says)


def _of_output(scene: Scene) -> str:
    """Return what is known of the outputs behind a latency."""
    if scene.tools.compared:
        return f"compared with what lay beside the input: {', '.join(scene.tools.compared)}"
    if scene.asked.tool == "MNNV2Basic":
        return (
            "the output was not checked (where input_0.txt is missing or short the tool computes with zeros, silently)"
        )
    return "the output was not checked"


def _odd_lines(scene: Scene, broken: Objection | None) -> Iterator[Judged]:
    for lines, detail in (
        (scene.unread, "this line looks like a figure and is not understood"),
        (scene.contradictions, "the JSON file and the table tell different figures of one test"),
    ):
        for line in lines:
            objection = broken or Objection(Reason.UNPARSED_OUTPUT, detail)
            yield Judged("unread line", None, "", objection.reason, objection.detail, line)


def _noted_texts(scene: Scene) -> Iterator[Judged]:
    """Yield what a person's notes tell of texts: their word on one, or one that they copied and that is broken."""
    for seen in scene.asked.seen:
        name = " ".join(part for part in ("text", seen.backend, seen.precision) if part)
        if seen.looks is not None:
            reason = None if seen.good else Reason.OUTPUT_WRONG if seen.looks == "wrong" else Reason.OUTPUT_DEGENERATE
            yield Judged(name, None, "", reason, f"somebody who saw the text calls it {seen.looks}", seen.line)
        elif wrong := degenerate(seen.quote):
            yield Judged(name, None, "", Reason.OUTPUT_DEGENERATE, wrong, seen.line)


def _whole(scene: Scene, figures: Sequence[Judged], broken: Objection | None) -> Judged:
    if broken is not None:
        return Judged(_WHOLE, None, "", broken.reason, broken.detail, broken.evidence)
    bad = sorted((figure for figure in figures if figure.reason is not None), key=_weight)
    if bad:
        return Judged(_WHOLE, None, "", bad[0].reason, f"{bad[0].name}: {bad[0].detail}", bad[0].evidence)
    return _fine(figures) if figures else _without_figures(scene)


def _fine(figures: Sequence[Judged]) -> Judged:
    counted = "1 figure" if len(figures) == 1 else f"{len(figures)} figures"
    return Judged(_WHOLE, None, "", None, f"{counted}; nothing speaks against")


# The order of the rules: what explains more stands first.
_ORDER = (
    Reason.BACKEND_FALLBACK,
    Reason.OUTPUT_DEGENERATE,
    Reason.OUTPUT_WRONG,
    Reason.IMPLAUSIBLE_SPEED,
    Reason.UNPARSED_OUTPUT,
    Reason.BACKEND_UNPROVEN,
    Reason.NOISY,
    Reason.TOKEN_COUNT_SHORT,
)


def _weight(judged: Judged) -> int:
    return _ORDER.index(judged.reason) if judged.reason in _ORDER else -1


def _without_figures(scene: Scene) -> Judged:
    """Judge an output in which nothing was measured, and nothing was reported as an error either."""
    if scene.tools.version is not None:
        return Judged(_WHOLE, None, "", None, f"a description of a model (version {scene.tools.version}), no figure")
    last = next((line.text.strip() for line in reversed(scene.lines) if line.text.strip()), "")[:300]
    wrong = degenerate(scene.text) if scene.text else ""
    if wrong:
        return Judged(_WHOLE, None, "", Reason.OUTPUT_DEGENERATE, wrong, scene.text[:200])
    if any(demo.summary and demo.text_seen and demo.decode_tokens and not demo.text for demo in scene.demos):
        return Judged(_WHOLE, None, "", Reason.OUTPUT_DEGENERATE, "tokens came out and no text", last)
    if not any(line.text.strip() for line in scene.lines if line.comment is None) or scene.known:
        detail = (
            "the program ended without a figure and without an error (with MNN_USE_LOGCAT they go to the phone's log)"
        )
        return Judged(_WHOLE, None, "", Reason.SILENT_EXIT, detail, last)
    return Judged(_WHOLE, None, "", Reason.UNPARSED_OUTPUT, "no output of a tool of MNN's that is known here", last)
