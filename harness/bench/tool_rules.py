"""The rules by which an output of MNN's tools is believed or not: about the whole of it, and about one figure. Pure.

Of the rules that object the first decides, as an earlier one explains the later ones. What speaks against the whole
speaks against each figure in it: an engine that lost half its weights prints plausible speeds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from harness.bench.engine_log import (
    FallbackMark,
    find_errors,
    find_fallback,
    find_gpu_errors,
    find_link_errors,
    find_load_errors,
    find_missing_backend,
    find_missing_driver,
)
from harness.bench.evidence import Objection
from harness.bench.figures import Figure
from harness.bench.neighbours import faster_than_prefill, impossible_pair
from harness.bench.physics import beyond_physics
from harness.bench.scene import Scene
from harness.bench.single_model_rules import clock_is_fine_enough, outputs_are_equal, something_was_run
from harness.bench.text_ends import ended_badly
from harness.bench.wording import degenerate
from harness.core.reasons import Reason
from harness.runners.events import Generation

WholeRule = Callable[[Scene], Objection | None]
FigureRule = Callable[[Figure, Scene], Objection | None]

_BACKENDS = {"cpu", "metal", "cuda", "opencl", "opengl", "vulkan", "hexagon", "nnapi", "npu", "qnn", "hiai", "coreml"}
# MNN_FORWARD_AUTO takes whatever there is.
_ANY = "auto"
# Backends whose runtime compiles kernels on the phone and keeps them in a file.
_COMPILING = {"opencl", "vulkan"}
# Summaries round times to hundredths of a second.
_ROUNDING_S = 0.0051
_WRONG_USE = re.compile(r"invalid parameter for argument|Parse arguments error|Invalid model config path|Invalid json")


def program_was_linked(scene: Scene) -> Objection | None:
    """The linker found every library."""
    refused = find_link_errors(scene.log)
    return Objection(Reason.LINK_ERROR, refused[0], refused[-1]) if refused else None


def options_were_understood(scene: Scene) -> Objection | None:
    """The tool understood its options and found the files that they name."""
    wrong = [line.text.strip()[:300] for line in scene.lines if line.comment is None and _WRONG_USE.search(line.text)]
    if wrong:
        return Objection(Reason.BAD_PLAN, f"the tool was called wrongly: {wrong[-1]}", wrong[-1])
    if scene.tools.missing:
        missing = scene.tools.missing[0]
        return Objection(Reason.BAD_PLAN, f"what the tool was to read is not there: {missing}", missing)
    if not scene.usage or scene.figures:
        return None
    usage = next((line.text for line in scene.lines if "usage:" in line.text.lower() or "Arguments:" in line.text), "")
    return Objection(Reason.BAD_PLAN, "the tool was called wrongly: it only explained its options", usage.strip()[:300])


def model_was_loaded(scene: Scene) -> Objection | None:
    """Graph, weights and tokenizer were read, and all of them."""
    errors = find_load_errors(scene.log)
    if errors:
        return Objection(Reason.LOAD_ERROR, f"the model was not loaded whole: {errors[0]}", errors[0])
    lost = next((figure for figure in scene.figures if figure.weights_found is False), None)
    if lost is not None:
        return Objection(Reason.LOAD_ERROR, "the size of the weight file is that of a missing file", lost.evidence)
    return None


def program_ended_well(scene: Scene) -> Objection | None:
    """No signal ended the program."""
    ended = ended_badly(scene.lines, scene.asked.exit_code, scene.log)
    asked = scene.asked
    if ended is not None and asked.tool == "ModuleBasic" and asked.backends and asked.backends[0] != "cpu":
        hint = f"{ended.detail}; so it ends where the engine has no {asked.backends[0]}"
        return Objection(ended.reason, hint, ended.evidence)
    return ended


def backend_is_there(scene: Scene) -> Objection | None:
    """The process has the backend that was asked for and a driver for it, so that anything ran at all."""
    missing = find_missing_backend(scene.log)
    if missing is None:
        return None
    driver = find_missing_driver(scene.log)
    if driver is not None:
        detail = f"nothing ran: {missing.used} found no driver on the phone that it can use"
        return Objection(Reason.BACKEND_MISSING_ON_PHONE, detail, driver)
    detail = f"nothing ran: these binaries have no {missing.used} (not built in, or its own library was not loaded)"
    return Objection(Reason.BACKEND_NOT_BUILT, detail, missing.line)


def backend_was_not_replaced(scene: Scene) -> Objection | None:
    """The engine admits no fallback; asked only where no figure is there to ask about its own backend."""
    if scene.figures:
        return None
    asked = scene.asked.backends[0] if scene.asked.backends else None
    mark = scene.fallback(asked)
    if mark is not None:
        return _fallback(asked, mark)
    return _mixture(scene) if asked != "cpu" else None


def driver_had_no_error(scene: Scene) -> Objection | None:
    """The GPU's driver reported no error. What led to a fallback is told by that."""
    errors = _but_fallbacks(find_gpu_errors(scene.log))
    if not errors or scene.fallback() is not None:
        return None
    return Objection(Reason.GPU_DRIVER_ERROR, f"the GPU's driver reported an error: {errors[0]}", errors[0])


def engine_had_no_error(scene: Scene) -> Objection | None:
    """The engine reported no error, and the exit status is 0 where it is told."""
    differing = scene.tools.differing
    errors = [line for line in _but_fallbacks(find_errors(scene.log)) if line not in differing]
    # A comparison whose backend was replaced compared nothing: the fallback is the cause.
    if errors and (scene.tools.correct is None or scene.fallback() is None):
        no_shape = any(line.text.strip() == "inputDims:" for line in scene.lines) and "Resize error" in errors[0]
        hint = " (no input shape was given)" if no_shape else ""
        return Objection(Reason.ENGINE_ERROR, f"the engine reported an error: {errors[0]}{hint}", errors[0])
    if scene.asked.exit_code:
        return Objection(Reason.ENGINE_ERROR, f"the program ended with exit status {scene.asked.exit_code}")
    return None


WHOLE_RULES: tuple[WholeRule, ...] = (
    program_was_linked,
    options_were_understood,
    model_was_loaded,
    backend_is_there,
    program_ended_well,
    backend_was_not_replaced,
    driver_had_no_error,
    engine_had_no_error,
    something_was_run,
)


def ran_where_asked(figure: Figure, scene: Scene) -> Objection | None:
    """Neither the engine, nor its log, nor the tool's own table names another backend than the one asked for."""
    asked = scene.asked_backend(figure)
    if figure.made is not None and asked not in (None, _ANY, figure.made):
        detail = f"asked for {asked}, the engine made {figure.made}"
        return Objection(Reason.BACKEND_FALLBACK, detail, f"backend {figure.made}: {figure.evidence}")
    mark = scene.fallback(asked) if figure.made is None else None
    if mark is not None:
        return _fallback(asked, mark)
    if figure.label is not None and figure.label != asked:
        detail = f"asked for {asked}, the tool's own table says {figure.label}"
        return Objection(Reason.BACKEND_FALLBACK, detail, figure.evidence)
    return _mixture(scene) if asked != "cpu" else None


def text_is_language(figure: Figure, scene: Scene) -> Objection | None:
    """What the model wrote, where the tool shows it, is neither empty nor a loop nor garbled."""
    wrong = "" if figure.text is None else degenerate(figure.text)
    return Objection(Reason.OUTPUT_DEGENERATE, wrong, (figure.text or "")[:200]) if wrong else None


def value_is_a_number(figure: Figure, scene: Scene) -> Objection | None:
    """The value is finite and above zero, and a mean lies between minimum and maximum."""
    if figure.value is None:
        return None
    if not math.isfinite(figure.value) or figure.value <= 0:
        return Objection(Reason.IMPLAUSIBLE_SPEED, f"{figure.value:g} {figure.unit} is no measurement", figure.evidence)
    if figure.limits is not None and not figure.limits[0] <= figure.value <= figure.limits[1]:
        low, high = figure.limits
        detail = f"a mean of {figure.value:g} {figure.unit} cannot lie outside {low:g} to {high:g}"
        return Objection(Reason.IMPLAUSIBLE_SPEED, detail, figure.evidence)
    return None


def counted_tokens_are_enough(figure: Figure, scene: Scene) -> Objection | None:
    """No more tokens are in the rate than somebody counted."""
    came = scene.asked.generated
    if came is None or figure.phase != "decode" or figure.tokens is None or figure.tokens <= came[1]:
        return None
    out = str(came[0]) if came[0] == came[1] else f"{came[0]} to {came[1]}"
    detail = f"{out} tokens came out, {figure.tokens} were divided by their time"
    return Objection(Reason.TOKEN_COUNT_SHORT, detail, figure.evidence)


def speed_is_possible(figure: Figure, scene: Scene) -> Objection | None:
    """No memory, no processor and no summary is contradicted by the speed."""
    if figure.unit != "tok/s" or figure.value is None:
        return None
    step_ms = 1000 / figure.value
    prompt = max(figure.prompt_tokens, 1)
    of_prefill = figure.phase == "prefill"
    step = Generation(
        index=0,
        kind="timed",
        prompt_tokens=prompt if of_prefill else 1,
        generated_tokens=1 if of_prefill else 2,
        prefill_ms=step_ms * prompt if of_prefill else 1000.0,
        ttft_ms=1000.0,
        token_ms=() if of_prefill else (step_ms,),
        finish="length",
    )
    wrong = beyond_physics(step, figure.weight_bytes or 0) if figure.phase != "both" else ""
    if wrong:
        return Objection(Reason.IMPLAUSIBLE_SPEED, f"{figure.value:g} tok/s: {wrong}", figure.evidence)
    if figure.took_s is not None and figure.tokens is not None:
        least = figure.tokens / (figure.took_s + _ROUNDING_S)
        most = figure.tokens / (figure.took_s - _ROUNDING_S) if figure.took_s > _ROUNDING_S else math.inf
        if not least * 0.999 <= figure.value <= most * 1.001:
            detail = f"{figure.tokens} tokens in {figure.took_s:g} s are not {figure.value:g} tok/s"
            return Objection(Reason.IMPLAUSIBLE_SPEED, detail, figure.evidence)
    return None


def decode_is_slower_than_prefill(figure: Figure, scene: Scene) -> Objection | None:
    """A decoded token reads all weights, a prefill reads them once for many tokens."""
    return faster_than_prefill(figure, scene.figures)


def neighbours_agree(figure: Figure, scene: Scene) -> Objection | None:
    """Decode falls with the length of the context, and no faster than that grows."""
    return impossible_pair(figure, scene.figures)


def backend_is_proven(figure: Figure, scene: Scene) -> Objection | None:
    """Something other than the option itself says that the backend was used."""
    asked = scene.asked_backend(figure)
    if figure.made is not None:
        return None
    if asked is None:
        if not scene.wanted_a_gpu:
            return None
        detail = (
            "the engine looked for a GPU's compiled kernels, so that its config asks for another backend than the CPU; "
            "nothing tells which one ran (MNN takes a name that it does not know for any backend it finds)"
        )
        return Objection(Reason.BACKEND_UNPROVEN, detail, "mnn_cachefile.bin")
    others = [name for name in scene.asked.backends if name not in {row.label for row in scene.figures}]
    if asked == "cpu" and figure.label is not None and others and len(scene.asked.backends) > 1:
        detail = f"{others[0]} was asked for, too, and has no row of its own: this one may be its"
        return Objection(Reason.BACKEND_UNPROVEN, detail, figure.evidence)
    if asked == "cpu" or (asked in _COMPILING and scene.compiled is not None):
        return None
    if asked not in _BACKENDS:
        detail = f"for {asked!r} MNN takes any backend that it finds; nothing tells which one ran"
        return Objection(Reason.BACKEND_UNPROVEN, detail, figure.evidence)
    detail = f"asked for {asked}; the tool repeats what it was asked for, and nothing else tells what ran"
    return Objection(Reason.BACKEND_UNPROVEN, detail, figure.evidence)


def repeats_agree(figure: Figure, scene: Scene) -> Objection | None:
    """The repeats spread no more than the limit."""
    spread = figure.spread
    if spread is None or 0 <= spread <= scene.cv_limit:
        return None
    detail = f"the repeats spread {spread:.0%} of their mean (limit {scene.cv_limit:.0%})"
    steady = any(other.phase == "prefill" and (other.spread or 0) <= scene.cv_limit for other in scene.figures)
    if figure.phase != "prefill" and steady:
        detail += " while prefill is steady: sampling probably ended the generations at different lengths"
    return Objection(Reason.NOISY, detail, figure.evidence)


def tokens_were_counted(figure: Figure, scene: Scene) -> Objection | None:
    """The rate is one of tokens that came out."""
    of_prompt = figure.phase == "prefill" and figure.tokens is None
    if figure.phase in ("latency", "comparison") or of_prompt or (figure.counted and (figure.tokens or 0) > 1):
        return None
    if figure.tokens is None:
        detail = "how many tokens came out is not told"
    elif figure.counted:
        detail = f"{figure.tokens} tokens make no speed"
    else:
        detail = (
            f"how many tokens came out is not told: the {figure.tokens} that were asked for are divided by the time, "
            f"so that a generation that ends early looks faster (ask with -pg of MNN 3.6, which counts)"
        )
    return Objection(Reason.TOKEN_COUNT_SHORT, detail, figure.evidence)


FIGURE_RULES: tuple[FigureRule, ...] = (
    ran_where_asked,
    text_is_language,
    outputs_are_equal,
    value_is_a_number,
    counted_tokens_are_enough,
    speed_is_possible,
    decode_is_slower_than_prefill,
    neighbours_agree,
    backend_is_proven,
    clock_is_fine_enough,
    repeats_agree,
    tokens_were_counted,
)


def _but_fallbacks(errors: list[str]) -> list[str]:
    """Leave out the lines that admit a fallback: what ran then may have run well, elsewhere."""
    return [line for line in errors if find_fallback(line.encode()) is None]


def _fallback(asked: str | None, mark: FallbackMark) -> Objection:
    wanted = "another backend was asked for" if asked is None else f"asked for {asked}"
    return Objection(Reason.BACKEND_FALLBACK, f"{wanted}, ran on {mark.used}", mark.line)


def _mixture(scene: Scene) -> Objection | None:
    if not scene.mixed:
        return None
    detail = f"operators were left to the CPU ({len(scene.mixed)} in all): what ran is a mixture"
    return Objection(Reason.BACKEND_FALLBACK, detail, scene.mixed[0])
