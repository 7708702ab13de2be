"""``llm_bench`` as a runner: one configuration a process, one row for each timed generation, the text by another tool.

Each ``-pg P,G`` with ``-rep 1`` is one row: it loads the model, generates once for warmth and once for the row. So rows
are samples, and no mean hides their spread. What it prints leaves at its end, so that no row has a moment.

It shows no text and feeds token 16 as prompt, again and again. The text is shown by ``llm_demo`` (else ``farm_runner``)
of the same bundle, with the same configuration and the timed prompt of all runners.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.core.reasons import Reason
from harness.payload.bundle import Bundle
from harness.payload.probe_events import RunLog
from harness.plan.matrix import PlannedCell, questions_of
from harness.plan.model import Plan
from harness.runners.base import MAIN, Order, Step, library_env, step_dir
from harness.runners.events import End, Generation, Load, RunnerError, RunnerLog, parse_runner_output
from harness.runners.farm_runner import ASK_FILE, ask_file, build_command
from harness.runners.lines import Line
from harness.runners.llm_bench import BenchLog, BenchRow, parse_bench
from harness.runners.llm_demo_runner import answer_steps, cannot_ask, demo_step, prompt_of, read_answers, read_text
from harness.runners.own_model import CONFIG, FOLDER, model_settings, own_config, own_links, program_of
from harness.runners.tool_log import as_log, hello_of, lines_of, load_of, step_failed, words_of

TEXT = "text"
_LEVELS = {"normal": 0, "high": 1, "low": 2}
# attention_mode is flash attention x 8 + quantisation of the KV cache; MNN's default.
_ATTENTION = 8
# llm_bench picks the option of dynamic quantisation by the prompt's length.
_LONG_PROMPT = 300
# Engine keys that it overrides by options of its own: key, option, its default.
_NUMBERS = (("cpu_sme2_neon_division_ratio", "-mr", 41), ("cpu_sme_core_num", "-scn", 2))


class LlmBench:
    """MNN's ``llm_bench``."""

    wants_prompt_text = True
    no_cold_start = "llm_bench warms the model up before its first figure and does not tell how long it loads"

    def cannot(self, bundle: Bundle, cell: PlannedCell, plan: Plan) -> tuple[Reason, str] | None:
        """It measures burst cells on the CPU and OpenCL, where another program of the bundle shows the text."""
        if cell.tensor:
            return Reason.BUNDLE_MISMATCH, "llm_bench runs language models only: use farm_runner"
        if cell.backend == "vulkan":
            return Reason.BACKEND_NOT_BUILT, "llm_bench takes no Vulkan: use llm_demo or farm_runner"
        if plan.duration_s is not None:
            return Reason.BAD_PLAN, "llm_bench measures a fixed number of times: use farm_runner for a sustained plan"
        if cell.context_tokens:
            return Reason.BAD_PLAN, "llm_bench takes no history before a prompt: use farm_runner for context_tokens"
        if plan.load_rounds > 1:
            return Reason.BAD_PLAN, "llm_bench loads for each row anew: set load_rounds to 1, or use farm_runner"
        wanted = cell.engine.get("dynamic_option")
        if wanted is not None and _dynamic_option(cell, wanted) != wanted:
            return Reason.BAD_PLAN, (
                f"with a prompt of {cell.prompt_tokens} tokens llm_bench sets dynamic_option to "
                f"{_dynamic_option(cell, wanted)}, not {wanted} (8 more beyond {_LONG_PROMPT} tokens, else less than 8)"
            )
        if program_of(bundle, "llm_demo") is not None:
            return cannot_ask(cell, plan)
        if program_of(bundle, "farm_runner") is None:
            return Reason.BUNDLE_MISMATCH, (
                f"llm_bench prints no text, and bundle {bundle.manifest.name} has no program that does: import it "
                "again with llm_demo or farm_runner beside llm_bench"
            )
        return None

    def steps(self, order: Order) -> tuple[Step, ...]:
        """Return the run of all rows, then those that show the text and answer the questions."""
        main = Step(
            MAIN,
            _command(order),
            {**own_config(order, {"banned_tokens": list(prompt_of(order).stop_tokens)}), "tmp/.keep": b""},
            own_links(order),
            library_env(order),
            speaks=False,
        )
        same = _as_measured(order)
        if program_of(order.bundle, "llm_demo") is None:
            return main, _farm_runner_step(same)
        text = demo_step(same, TEXT, [prompt_of(order).text], order.cell.generate_tokens)
        return (main, text, *answer_steps(same))

    def read(self, order: Order, runs: Mapping[str, RunLog], logs: Mapping[str, bytes] | None = None) -> RunnerLog:
        """Return the rows, each a timed generation, and the text."""
        run, logs = runs[MAIN], logs or {}
        lines = lines_of(run, logs.get(MAIN, b""))
        bench = parse_bench(lines)
        errors = tuple(_mismatches(order, bench))
        timed = tuple(_generation(index, row) for index, row in enumerate(bench.rows) if _is_asked(order, row))
        whole = not errors and not bench.unread and len(timed) == order.plan.repeats
        others = _Others.read(order, runs, logs, len(timed)) if whole else _Others((), (), ())
        return RunnerLog(
            hello=hello_of(order, "llm_bench", run, logs.get(MAIN, b"")),
            loads=(_load(order, lines, bench),) if bench.rows else (),
            generations=(*timed, *others.generations),
            errors=(*errors, *others.errors),
            end=End(status="ok") if whole else None,
            junk=(*_engine_words(lines), *others.words),
            unread=bench.unread,
            definition=_definition(order),
            tool=run.stdout + as_log(logs.get(MAIN, b"")),
        )


def _command(order: Order) -> tuple[str, ...]:
    cell, plan = order.cell, order.plan
    settings = {**model_settings(order.model), **cell.engine}
    argv = [f"{order.bundle_dir}/{program_of(order.bundle, 'llm_bench')}", "-m", f"{order.work_dir}/{FOLDER}/{CONFIG}"]
    argv += ["-a", cell.backend, "-t", str(cell.threads), "-c", str(_LEVELS[cell.precision])]
    argv += ["--memory", str(_LEVELS[cell.memory]), "-p", "0", "-n", "0", "-rep", "1"]
    argv += ["-pg", f"{cell.prompt_tokens},{cell.generate_tokens}"] * plan.repeats
    # An option is given only where it is needed: older versions know fewer.
    power = settings.get("power", "normal")
    if power in _LEVELS and power != "normal":
        argv += ["--power", str(_LEVELS[str(power)])]
    if settings.get("use_mmap") is True:
        argv += ["-mmp", "1"]
    attention = _number(settings, "attention_mode", _ATTENTION)
    if attention != _ATTENTION:
        argv += ["-fa", str(attention // 8), "-qa", str(attention % 8)]
    if _number(settings, "dynamic_option", 0):
        argv += ["-dyo", str(_number(settings, "dynamic_option", 0))]
    for key, option, default in _NUMBERS:
        if _number(settings, key, default) != default:
            argv += [option, str(_number(settings, key, default))]
    return tuple(argv)


def _number(settings: Mapping[str, object], key: str, default: int) -> int:
    value = settings.get(key, default)
    return value if type(value) is int else default


def _dynamic_option(cell: PlannedCell, option: object) -> int:
    """Return the option that ``llm_bench`` sets where ``option`` is asked for."""
    asked = option if type(option) is int else 0
    return asked % 8 + (8 if cell.prompt_tokens > _LONG_PROMPT else 0)


def _as_measured(order: Order) -> Order:
    """Return the order with the engine keys that ``llm_bench`` really sets, for the runs beside it."""
    asked = {**model_settings(order.model), **order.cell.engine}.get("dynamic_option", 0)
    engine = {**order.cell.engine, "dynamic_option": _dynamic_option(order.cell, asked)}
    return replace(order, cell=replace(order.cell, engine=engine))


def _farm_runner_step(order: Order) -> Step:
    """Return a run of our runner that generates once and answers the questions."""
    once = order.plan.model_copy(update={"warmups": 0, "repeats": 1, "repeats_max": None, "cv_limit": None})
    step = Step(TEXT, ())
    folder = step_dir(order.work_dir, step)
    bundle = order.bundle.with_runner("farm_runner")
    argv = build_command(
        bundle, order.bundle_dir, order.model_dir, folder, order.cell, once, prompt_text=prompt_of(order).text
    )
    files = {ASK_FILE: ask_file(order.plan)} if order.cell.leads and order.plan.golden.ask else {}
    return Step(TEXT, argv, files, env=library_env(order))


@dataclass(frozen=True)
class _Others:
    """What the runs beside the measured one told, and the words of the engine in them."""

    generations: tuple[Generation, ...]
    errors: tuple[RunnerError, ...]
    words: tuple[str, ...]

    @classmethod
    def read(cls, order: Order, runs: Mapping[str, RunLog], logs: Mapping[str, bytes], first_index: int) -> _Others:
        if program_of(order.bundle, "llm_demo") is None:
            return cls._of_farm_runner(order, runs.get(TEXT), first_index)
        tokens = order.cell.generate_tokens
        text, failed, lines = read_text(TEXT, runs.get(TEXT), logs.get(TEXT, b""), tokens)
        if text is None:
            return cls((), failed, words_of({TEXT: lines}))
        answers = read_answers(order, runs, logs, first_index + 1)
        return cls(
            (text.model_copy(update={"index": first_index}), *answers.generations),
            answers.errors,
            words_of({TEXT: lines, **answers.lines}),
        )

    @classmethod
    def _of_farm_runner(cls, order: Order, run: RunLog | None, first_index: int) -> _Others:
        failed = tuple(step_failed(TEXT, run))
        if run is None:
            return cls((), failed, ())
        told = parse_runner_output(run.stdout)
        texts = (*told.of_kind("timed"), *told.of_kind("answer"))
        if not failed and not told.errors and len(texts) != 1 + len(questions_of(order.cell, order.plan)):
            failed = (RunnerError(stage=TEXT, message=f"farm_runner told {len(texts)} texts"),)
        generations = [
            one.model_copy(update={"index": first_index + number, "kind": "answer" if number else "check", **_UNTIMED})
            for number, one in enumerate(texts)
        ]
        said = (*told.junk, *run.stderr.decode("utf-8", "replace").splitlines())
        return cls(tuple(generations), told.errors or failed, words_of({TEXT: tuple(map(Line, said))}))


# Of a text beside the measured run no time counts.
_UNTIMED: dict[str, object] = {"prefill_ms": None, "ttft_ms": None, "token_ms": (), "begun_ns": None, "rss_bytes": None}


def _mismatches(order: Order, bench: BenchLog) -> Iterator[RunnerError]:
    """Yield which rows are not of what was asked for, as far as their columns tell, and how many are missing."""
    cell = order.cell
    for row in bench.rows:
        pairs = (
            ("test", row.test, f"pp{cell.prompt_tokens}+tg{cell.generate_tokens}"),
            ("model", row.model, FOLDER),
            ("backend", row.backend, cell.backend),
            ("threads", row.threads, cell.threads),
            ("precision", row.precision, cell.precision),
        )
        wrong = [f"{key} {told} instead of {asked}" for key, told, asked in pairs if told not in (None, asked)]
        if row.weights_found is False:
            wrong.append("no weight file")
        if wrong or not _is_asked(order, row):
            yield RunnerError(stage="output", message=f"a row tells {', '.join(wrong) or 'no two speeds'}: {row.line}")
    if bench.rows and len(bench.rows) != order.plan.repeats:
        yield RunnerError(stage="output", message=f"{len(bench.rows)} rows, asked were {order.plan.repeats}")


def _is_asked(order: Order, row: BenchRow) -> bool:
    lengths = (row.prompt_tokens, row.generate_tokens) == (order.cell.prompt_tokens, order.cell.generate_tokens)
    return lengths and [speed.phase for speed in row.speeds] == ["prefill", "decode"]


def _generation(index: int, row: BenchRow) -> Generation:
    prefill, decode = row.speeds
    return Generation(
        index=index,
        kind="timed",
        prompt_tokens=row.prompt_tokens,
        generated_tokens=row.generate_tokens,
        prefill_ms=_ms(row.prompt_tokens, prefill.tps),
        decode_ms=_ms(row.generate_tokens, decode.tps),
        decode_steps=row.generate_tokens,
        finish="length",
    )


def _ms(tokens: int, tps: float) -> float:
    return tokens / tps * 1000 if tps else float("inf")


def _load(order: Order, lines: tuple[Line, ...], bench: BenchLog) -> Load:
    row = bench.rows[-1]
    return load_of(order, lines, threads=row.threads, precision=row.precision)


def _engine_words(lines: Sequence[Line]) -> Iterator[str]:
    """Yield what the engine said on stdout: all but the table. What went to the phone's log is read from there."""
    return (line.text for line in lines if line.tag is None and line.text.strip() and not line.text.startswith("|"))


def _definition(order: Order) -> str:
    says = (
        "decode: tokens / (detokenising and computing), sampling excluded; prefill: computing alone, of one token "
        "repeated; each row after a warm-up of its own; how many tokens came out is counted and not told (stop tokens "
        "were banned)"
    )
    option = _dynamic_option(order.cell, {**model_settings(order.model), **order.cell.engine}.get("dynamic_option", 0))
    if option != order.cell.engine.get("dynamic_option", 0):
        says += f"; beyond {_LONG_PROMPT} prompt tokens it sets dynamic_option {option}: ask others for that, too"
    return says
