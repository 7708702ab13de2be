"""``farm_runner``: its command line. What it prints is read by :mod:`harness.runners.events`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.core.errors import HarnessError
from harness.core.ids import content_id
from harness.core.reasons import Reason
from harness.payload.bundle import Bundle
from harness.payload.probe_events import RunLog
from harness.plan.matrix import PlannedCell, questions_of
from harness.plan.model import Plan
from harness.runners.base import INPUTS, MAIN, Order, Step, inputs_dir, library_env, outputs_dir
from harness.runners.events import RunnerLog, parse_runner_output

# The text from which prompts of an exact token count are cut: plain sentences, so that tokens are of usual length.
PROMPT_TEXT = (
    "A phone lay on the table of a small workshop. Its owner wanted to know how quickly it could answer a question "
    "without asking a computer far away. She wrote down the time, pressed a key and watched the words appear one by "
    "one. Some phones were fast and wrong, some were slow and right, and a few were both fast and right. "
)

# The questions of a golden set, in the work folder: too many for a command line.
ASK_FILE = "questions.jsonl"


def prompt_hash(plan: Plan, cell: PlannedCell) -> str:
    """Hash of everything the model is asked in a cell, 16 hex digits."""
    asked = [[ask.question, ask.max_tokens] for ask in questions_of(cell, plan)]
    return content_id({"text": hashlib.sha256(PROMPT_TEXT.encode()).hexdigest(), "ask": asked})[:16]


class FarmRunner:
    """Our own runner, in C++ or Python: one run tells everything."""

    wants_prompt_text = False
    no_cold_start = ""

    def cannot(self, bundle: Bundle, cell: PlannedCell, plan: Plan) -> tuple[Reason, str] | None:
        """It measures every cell; the synthetic engine has no model to run."""
        if cell.tensor and bundle.manifest.engine != "MNN":
            return Reason.BUNDLE_MISMATCH, f"the {bundle.manifest.engine} engine runs no model"
        return None

    def steps(self, order: Order) -> tuple[Step, ...]:
        """Return its one run."""
        bundle, cell, plan = order.bundle, order.cell, order.plan
        if order.tensors is not None:
            given = {f"{INPUTS}/{name}": content for name, content in order.tensors.files().items()}
            return (Step(MAIN, tensor_command(order), given, env=library_env(order)),)
        argv = build_command(bundle, order.bundle_dir, order.model_dir, order.work_dir, cell, plan)
        files = {ASK_FILE: ask_file(plan)} if cell.leads and plan.golden.ask else {}
        return (Step(MAIN, argv, files, env=library_env(order)),)

    def read(self, order: Order, runs: Mapping[str, RunLog], logs: Mapping[str, bytes] | None = None) -> RunnerLog:
        """Return its events."""
        return parse_runner_output(runs[MAIN].stdout)


def tensor_command(order: Order) -> tuple[str, ...]:
    """Return the command that runs a tensor cell on the phone."""
    bundle, cell, plan, model = order.bundle, order.cell, order.plan, order.model.tensor
    if model is None:
        raise HarnessError(f"{order.model.name} is a language model")
    program = f"{order.bundle_dir}/{bundle.program}"
    argv = ["python3", program] if bundle.manifest.needs_python_mnn else [program]
    argv += ["--tensor", f"{order.model_dir}/{model.file}", "--inputs", inputs_dir(order.work_dir)]
    argv += ["--outputs", outputs_dir(order.work_dir), "--backend", cell.backend, "--threads", str(cell.threads)]
    argv += ["--precision", cell.precision, "--memory", cell.memory]
    argv += ["--warmups", str(plan.warmups), "--repeats", str(plan.repeats), "--require-backend"]
    return (*argv, "--work-dir", order.work_dir)


def build_command(
    bundle: Bundle,
    bundle_dir: str,
    model_dir: str,
    work_dir: str,
    cell: PlannedCell,
    plan: Plan,
    prompt_text: str = PROMPT_TEXT,
) -> tuple[str, ...]:
    """Return the command that runs one cell on the phone. All folders are paths on the phone."""
    program = f"{bundle_dir}/{bundle.program}"
    argv = ["python3", program] if bundle.manifest.needs_python_mnn else [program]
    argv += ["--model", model_dir, "--backend", cell.backend, "--threads", str(cell.threads)]
    argv += ["--precision", cell.precision, "--memory", cell.memory, "--work-dir", work_dir]
    argv += ["--prompt-text", prompt_text, "--prompt-tokens", str(cell.prompt_tokens)]
    argv += ["--generate-tokens", str(cell.generate_tokens), "--context-tokens", str(cell.context_tokens)]
    argv += ["--load-rounds", str(plan.load_rounds), "--warmups", str(plan.warmups), "--require-backend"]
    argv += _how_long(plan)
    argv += _engine_keys(cell.engine)
    argv += [part for ask in plan.ask for part in ("--ask", _question(ask.question, ask.max_tokens))]
    if cell.leads and plan.golden.ask:
        argv += ["--ask-file", f"{work_dir}/{ASK_FILE}"]
    return (*argv, *bundle.manifest.extra_args)


def _how_long(plan: Plan) -> list[str]:
    if plan.duration_s is not None:
        return ["--duration-s", f"{plan.duration_s:g}"]
    argv = ["--repeats", str(plan.repeats)]
    if plan.cv_limit is not None and 0 < plan.repeats < plan.most_repeats:
        argv += ["--cv-limit", f"{plan.cv_limit:g}", "--max-repeats", str(plan.most_repeats)]
    return argv


def reference_command(
    program: Sequence[str],
    model_dir: str,
    work_dir: str,
    *,
    threads: int,
    precision: str,
    memory: str,
    lengths: tuple[int, int, int],
    engine: Mapping[str, bool | int | str],
    questions: Sequence[tuple[str, int]],
    prompt_text: str = PROMPT_TEXT,
) -> tuple[str, ...]:
    """Return the command that computes a reference on this computer: each text once, with its margins.

    ``lengths`` are prompt, generated and context tokens; the prompt is cut from ``prompt_text``. The questions go
    by a file in ``work_dir``, which is written.
    """
    file = Path(work_dir) / ASK_FILE
    file.write_text("".join(f"{_question(text, tokens)}\n" for text, tokens in questions), encoding="utf-8")
    prompt_tokens, generate_tokens, context_tokens = map(str, lengths)
    argv = [*program, "--model", model_dir, "--backend", "cpu", "--threads", str(threads)]
    argv += ["--precision", precision, "--memory", memory, "--work-dir", work_dir, "--prompt-text", prompt_text]
    argv += ["--prompt-tokens", prompt_tokens, "--generate-tokens", generate_tokens, "--context-tokens", context_tokens]
    argv += ["--warmups", "0", "--repeats", "1", "--margins", "--ask-file", str(file)]
    return (*argv, *_engine_keys(engine))


def ask_file(plan: Plan) -> bytes:
    """Return the file with the golden set's questions, one JSON object a line."""
    return "".join(f"{_question(ask.question, ask.max_tokens)}\n" for ask in plan.golden.ask).encode()


def _engine_keys(engine: Mapping[str, bool | int | str]) -> list[str]:
    return [part for key, value in sorted(engine.items()) for part in ("--engine", f"{key}={json.dumps(value)}")]


def _question(text: str, tokens: int) -> str:
    return json.dumps({"text": text, "tokens": tokens})
