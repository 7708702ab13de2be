"""``farm_runner``: how its command line is built. What it prints is read by :mod:`harness.runners.events`."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

from harness.core.ids import content_id
from harness.payload.bundle import Bundle
from harness.plan.matrix import PlannedCell
from harness.plan.model import Ask, Plan

# The text from which prompts of an exact token count are cut: plain sentences, so that tokens are of usual length.
PROMPT_TEXT = (
    "A phone lay on the table of a small workshop. Its owner wanted to know how quickly it could answer a question "
    "without asking a computer far away. She wrote down the time, pressed a key and watched the words appear one by "
    "one. Some phones were fast and wrong, some were slow and right, and a few were both fast and right. "
)

# The first token comes of the prefill, the second of the first decode step: by then every kernel was made.
_FIRST_TOKENS = 2


def prompt_hash(plan: Plan) -> str:
    """Hash of everything the model is asked, 16 hex digits."""
    asked = [[ask.question, ask.max_tokens] for ask in plan.ask]
    return content_id({"text": hashlib.sha256(PROMPT_TEXT.encode()).hexdigest(), "ask": asked})[:16]


def build_command(
    bundle: Bundle, bundle_dir: str, model_dir: str, work_dir: str, cell: PlannedCell, plan: Plan
) -> tuple[str, ...]:
    """Return the command that runs one cell on the phone. All folders are paths on the phone."""
    program = f"{bundle_dir}/{bundle.manifest.program}"
    argv = ["python3", program] if bundle.manifest.needs_python_mnn else [program]
    argv += ["--model", model_dir, "--backend", cell.backend, "--threads", str(cell.threads)]
    argv += ["--precision", cell.precision, "--memory", cell.memory, "--work-dir", work_dir]
    argv += ["--prompt-text", PROMPT_TEXT, "--prompt-tokens", str(cell.prompt_tokens)]
    argv += ["--generate-tokens", str(cell.generate_tokens), "--context-tokens", str(cell.context_tokens)]
    argv += ["--load-rounds", str(plan.load_rounds), "--warmups", str(plan.warmups), "--require-backend"]
    argv += _how_long(plan)
    for key, value in sorted(cell.engine.items()):
        argv += ["--engine", f"{key}={json.dumps(value)}"]
    argv += [part for ask in plan.ask for part in _ask(ask)]
    return (*argv, *bundle.manifest.extra_args)


def build_cold_command(
    bundle: Bundle, bundle_dir: str, model_dir: str, work_dir: str, cell: PlannedCell, plan: Plan
) -> tuple[str, ...]:
    """Return the command that uses the model for the first time: it is loaded, and the prompt gets two tokens."""
    once = plan.model_copy(update={"load_rounds": 1, "warmups": 1, "repeats": 0, "duration_s": None, "ask": []})
    short = replace(cell, generate_tokens=_FIRST_TOKENS)
    return build_command(bundle, bundle_dir, model_dir, work_dir, short, once)


def _how_long(plan: Plan) -> list[str]:
    if plan.duration_s is not None:
        return ["--duration-s", f"{plan.duration_s:g}"]
    argv = ["--repeats", str(plan.repeats)]
    if plan.cv_limit is not None and 0 < plan.repeats < plan.most_repeats:
        argv += ["--cv-limit", f"{plan.cv_limit:g}", "--max-repeats", str(plan.most_repeats)]
    return argv


def _ask(ask: Ask) -> list[str]:
    return ["--ask", json.dumps({"text": ask.question, "tokens": ask.max_tokens})]
