"""The rungs that need nothing but this computer: whether the model is whole, and whether it runs here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from harness.bench.context import RunContext
from harness.bench.match import Reference
from harness.bench.reference import REFERENCE_S, query_of
from harness.bench.reference_run import Compute, compute, maker
from harness.bench.reference_store import Maker, Query, ReferenceStore, as_entry
from harness.bench.text_rules import repeated_loop
from harness.core.deadline import Deadline
from harness.core.errors import DeadlineError, HostError, ModelRunError
from harness.core.ids import iso, utc_now
from harness.core.reasons import Reason
from harness.core.resources import cache_dir
from harness.diagnose.rung import Outcome, broke, broke_by, held, unknown
from harness.diagnose.setting import Shape, plan_of
from harness.diagnose.subject import Subject
from harness.payload.bundle import default_bundle
from harness.payload.engine_needs import too_old
from harness.payload.models import ModelFolder, read_model, verify_model


def model_is_whole(subject: Subject) -> Outcome:
    """Look at every file of the model folder."""
    path = subject.request.model
    subject.say("reading every file of the model")
    report = verify_model(path)
    errors = [problem for problem in report.problems if not problem.warning]
    if errors:
        first, *others = errors
        outcome = broke(first.reason, first.detail, advice=(first.fix,), evidence=[one.detail for one in others])
        return replace(outcome, code=first.check, reproduce=f"mnn-farm models verify {path}")
    subject.model = read_model(path)
    warnings = [problem.detail for problem in report.problems if problem.warning]
    size = f"{report.facts['files']} files, {subject.model.weight_bytes / 1e6:.1f} MB of weights"
    return held("; ".join([size, *warnings]))


def host_runs_it(subject: Subject, compute: Compute = compute, maker: Callable[[], Maker] = maker) -> Outcome:
    """Have MNN's Python package generate here what the phone will be asked for; kept for the rungs that compare."""
    sizes, model = subject.request.sizes, subject.model
    plan, cell = plan_of(subject.base, Shape(sizes.generate_tokens, sizes.patience_s), model.name)
    context = RunContext(subject.run_id, subject.run_dir, plan, default_bundle(), {model.name: model})
    query = query_of(context, cell)
    try:
        made_by = maker()
        reference, when = _reference(subject, query, made_by, compute)
    except ModelRunError as error:
        return _fails_here(model, made_by.engine_version, error, subject.request.model)
    except (HostError, DeadlineError) as error:
        return unknown(f"this computer cannot try it: {error}")
    text, ids = reference.timed.text, reference.timed.token_ids
    if not text.strip() or repeated_loop(ids):
        detail = f"MNN {reference.engine_version} says {text[:120]!r} here: no text, or a loop"
        return replace(broke(Reason.OUTPUT_DEGENERATE, detail), reproduce=_on_host(subject.request.model))
    return held(f"MNN {reference.engine_version} says {text[:60]!r}{when}")


def _reference(subject: Subject, query: Query, made_by: Maker, compute: Compute) -> tuple[Reference, str]:
    store = ReferenceStore(cache_dir("references"))
    kept = store.read(query, made_by)
    if kept is not None and kept.reference is not None:
        return kept.reference, f" (computed {kept.made[:10]}, kept)"
    subject.say(f"running {subject.model.name} with MNN {made_by.engine_version} on this computer")
    result = compute(query, subject.model, Deadline(REFERENCE_S, "running the model", "this computer"))
    store.write(query, made_by, as_entry(subject.run_id, iso(utc_now()), made_by, result))
    return result, ""


def _fails_here(model: ModelFolder, engine_version: str, error: ModelRunError, path: Path) -> Outcome:
    old = too_old(engine_version, model.engine_version, model.engine_needs)
    if old is not None:  # what another engine makes of it, the phone tells
        return unknown(f"{error.message}, but {old.says}: the engine on the phone has to tell")
    return replace(broke_by(error), reproduce=_on_host(path))


def _on_host(path: Path) -> str:
    return f"pytest --devices host --plan smoke --model {path}"
