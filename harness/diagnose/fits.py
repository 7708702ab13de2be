"""The rungs about bundle and model on this phone before the engine runs: they fit, arrive, link and start."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

from harness.bench.context import RunContext
from harness.bench.endings import ended_by_itself
from harness.bench.engine_log import find_link_errors
from harness.bench.evidence import Evidence, Objection
from harness.bench.fit import engine_cannot, too_big
from harness.bench.phone_log import LogReader, PhoneLog
from harness.bench.session import PhoneSession
from harness.bench.steps import make_step_dir
from harness.bench.triaged import texts_of, triaged
from harness.core.deadline import Deadline
from harness.core.errors import ConfigError
from harness.core.reasons import Reason
from harness.diagnose.reach import on_adb
from harness.diagnose.rung import Outcome, broke, held, telling
from harness.diagnose.setting import Shape, plan_of
from harness.diagnose.subject import Subject
from harness.payload.bundle import MANIFEST, Bundle, best_bundle
from harness.payload.bundle_inspect import inspect_folder
from harness.payload.engine_needs import too_old
from harness.payload.model_problem import Problem
from harness.payload.probe import RunSpec
from harness.report.advice import ADVICE
from harness.runners.base import Order, Step
from harness.runners.events import RunnerLog
from harness.runners.prompt_text import prompt_text
from harness.runners.registry import runner_of
from harness.store.schema import Finding

# A program that prints its usage; a phone that swaps may need some seconds for it.
START_S = 30.0
CLEAN_UP_S = 20.0
# What a shell, or the probe in its place, says of a program that the kernel refuses or does not find.
_NOT_STARTED = {126: Reason.NOEXEC, 127: Reason.LINK_ERROR}
# What the kernel says of a file that it does not start.
_SPAWN = {
    "ENOEXEC": (Reason.ABI_MISMATCH, "the phone does not know the program's format: it is built for another CPU"),
    "ENOENT": (Reason.LINK_ERROR, "the program's own loader is not on this phone: it is built for another system"),
    "EACCES": (Reason.NOEXEC, "the phone refuses to start the program: no permission, or no programs from this folder"),
}
_HELP = {"farm_runner": ("--help",)}
_MISSING = re.compile(
    r"error while loading shared libraries: (?P<glibc>[^\s:]+): cannot open shared object file"
    r'|library "(?P<bionic>[^"]+)" not found'
)
_LOOK_BESIDE = (
    "Give the bundle its files as a variant (`mnn-farm bins import` does): they then get LD_LIBRARY_PATH.",
    "Or link the program with -Wl,-rpath,'$ORIGIN'.",
)


def bundle_fits(subject: Subject) -> Outcome:
    """Choose the bundle for this phone, and look at its files on this computer."""
    request, facts = subject.request, subject.phone.facts
    if request.bundle_problems:
        return replace(_of_problem(request.bundle_problems), reproduce=f"mnn-farm bins inspect {request.bundle_word}")
    bundle = best_bundle(request.bundles, subject.target)
    again = f"mnn-farm bins inspect {bundle.folder.root}"
    try:
        bundle.check(subject.target)
        offered = bundle.backends(subject.target)
    except ConfigError as error:
        advice = (ADVICE[error.reason], error.remedy)
        return replace(broke(error.reason, error.message, advice=advice), reproduce=again)
    subject.say(f"inspecting bundle {bundle.manifest.name}")
    problems = tuple(_problems(bundle, bundle.abi(subject.target), facts.page_size))
    errors = tuple(problem for problem in problems if not problem.warning)
    if errors:
        return replace(_of_problem(errors), reproduce=again)
    subject.bundle = bundle
    warnings = "".join(f"; {problem.detail}" for problem in problems[:2])
    abi = bundle.abi(subject.target) or "any ABI"
    return held(f"{bundle.manifest.name} for {abi}, with {', '.join(offered)}{warnings}")


def _problems(bundle: Bundle, abi: str | None, page_bytes: int | None) -> Iterator[Problem]:
    """Yield what is wrong with the files that a phone of this ABI gets; a program made here is what we made it."""
    if bundle.manifest.build or bundle.manifest.needs_python_mnn:
        return
    root = bundle.folder.root
    places = [root / variant.folder for variant in bundle.manifest.variants if variant.abi == abi] or [root]
    for place in places:
        report = inspect_folder(place, page_bytes=page_bytes)
        built_for = [variant.abi for variant in report.variants]
        if abi is not None and built_for and abi not in built_for:
            said = f"{bundle.program} of {bundle.manifest.name} is for {', '.join(built_for)}, the phone takes {abi}"
            fix = f"add what is built for {abi}, and correct what {MANIFEST} says"
            yield Problem("bundle_wrong_abi", said, fix, reason=Reason.ABI_MISMATCH)
        # A manifest names its programs itself, whatever they are called, and one may be a script.
        scripts = [f"{path} " for path in place.iterdir() if path.is_file() and _begins_with(path, b"#!")]
        for one in report.problems:
            if one.check not in _OF_NAMES and not (one.check == "not_an_elf" and one.detail.startswith(tuple(scripts))):
                yield one


def _begins_with(path: Path, begin: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(begin)) == begin


_OF_NAMES = frozenset({"no_runner", "no_llm_bench", "no_llm_demo", "bundle_empty"})


def _of_problem(problems: tuple[Problem, ...]) -> Outcome:
    first, *others = problems
    reason = {"library_missing": Reason.LINK_ERROR, "symbol_missing": Reason.LINK_ERROR}.get(first.check, first.reason)
    outcome = broke(reason, first.detail, advice=(first.fix,), evidence=[one.detail for one in others])
    return replace(outcome, code=first.check)


def engine_knows_the_model(subject: Subject) -> Outcome:
    """Hold what the model has against the engine's version, as far as both are known."""
    model, version = subject.model, subject.engine_version
    if subject.bundle.manifest.engine != "MNN":
        return held(f"the {subject.bundle.manifest.engine} engine reads no model")
    cannot = engine_cannot(model, version)
    if cannot is not None:
        again = f"mnn-farm models verify {subject.request.model} --engine-version {version}"
        fix = too_old(version, model.engine_version, model.engine_needs)
        advice = [fix.fix[:1].upper() + fix.fix[1:]] if fix is not None else []
        return replace(
            broke(cannot.reason, cannot.detail if fix is None else fix.says, advice=advice),
            code="model_engine_version_mismatch",
            cause="The model has something that this version of the engine does not know.",
            reproduce=again,
        )
    maybe = too_old(version, model.engine_version, model.engine_needs)
    made = f"MNN {version or 'of unknown version'}, model made by {model.engine_version or 'an unknown version'}"
    return held(f"{made}; perhaps not: {maybe.says}" if maybe is not None else made)


def memory_is_enough(subject: Subject) -> Outcome:
    """Hold what the model needs at least against what the phone has at most."""
    facts, sizes = subject.phone.facts, subject.request.sizes
    _, cell = plan_of(subject.base, Shape(sizes.generate_tokens, sizes.patience_s), subject.model.name)
    refused = too_big(cell, subject.model, facts.ram_bytes, subject.bundle.abi(subject.target))
    if refused is not None:
        return broke(refused.reason, refused.detail)
    has = "unknown" if facts.ram_bytes is None else f"{facts.ram_bytes / 2**30:.1f} GiB"
    free = "unknown" if facts.available_bytes is None else f"{facts.available_bytes / 2**30:.1f} GiB"
    return held(f"{subject.model.weight_bytes / 2**30:.2f} GiB of weights; the phone has {has}, available {free}")


def payload_arrives(subject: Subject) -> Outcome:
    """Push what is not there, and have every file's hash computed on the phone. From here on there is a session."""
    sizes, model = subject.request.sizes, subject.model
    plan, _ = plan_of(subject.base, Shape(sizes.generate_tokens, sizes.patience_s), model.name)
    context = RunContext(subject.run_id, subject.run_dir, plan, subject.bundle, {model.name: model})
    subject.session = session = PhoneSession(subject.phone, context, subject.say)
    programs = subject.bundle.payload(subject.target, subject.say)

    def bring() -> None:
        session.bring("bundles", programs, f"bundle {subject.bundle.manifest.name}")
        session.bring("models", model.folder, f"model {model.name}")

    session.ladder.until_done(bring)
    return held(f"{len(programs.files) + len(model.folder.files)} files, verified there by their hashes")


def bundle_links(subject: Subject) -> Outcome:
    """Start each program that the runner uses, under the probe, without a model."""
    order = _order(subject)
    try:
        for number, step in enumerate(_starts(order)):
            subject.say(f"starting {step.argv[-1 if len(step.argv) == 1 else 0].rpartition('/')[2]}")
            outcome = _start(subject, order, step, number)
            if outcome is not None:
                return outcome
    finally:
        deadline = Deadline(CLEAN_UP_S, "removing the work folder", subject.transport.name)
        subject.transport.shell(["rm", "-rf", order.work_dir], deadline=deadline)
    return held(f"{subject.bundle.program} starts")


def _order(subject: Subject) -> Order:
    session, bundle, model = subject.session, subject.bundle, subject.model
    programs = bundle.payload(subject.target, subject.say)
    sizes = subject.request.sizes
    plan, cell = plan_of(subject.base, Shape(sizes.generate_tokens, sizes.patience_s), model.name)
    return Order(
        bundle=bundle,
        bundle_dir=session.bring("bundles", programs, f"bundle {bundle.manifest.name}"),
        model=model,
        model_dir=session.bring("models", model.folder, f"model {model.name}"),
        work_dir=f"{subject.transport.base_dir}/work/{subject.run_id}",
        cell=cell,
        plan=plan,
        prompt=prompt_text(model, cell.prompt_tokens) if runner_of(bundle).wants_prompt_text else None,
        files=frozenset(file.path for file in programs.files),
    )


def _starts(order: Order) -> Iterator[Step]:
    """Yield one start of each program, with the variables that it will have, asking for its usage."""
    seen: set[str] = set()
    for step in runner_of(order.bundle).steps(order):
        words = step.argv[:2] if order.bundle.manifest.needs_python_mnn else step.argv[:1]
        if words[-1] not in seen:
            seen.add(words[-1])
            yield Step(step.name, (*words, *_HELP.get(order.bundle.runner, ())), env=step.env)


def _start(subject: Subject, order: Order, step: Step, number: int) -> Outcome | None:
    """Start a program; return how it broke, ``None`` when it started."""
    phone, transport = subject.phone, subject.transport
    work_dir = f"{order.work_dir}/{number}"
    make_step_dir(transport, replace(order, work_dir=work_dir), Step("main", step.argv))
    lease = (phone.lease.file, phone.lease.id) if phone.lease is not None else None
    spec = RunSpec(step.argv, work_dir, START_S, env=step.env or None, lease=lease)
    reader = LogReader(transport, phone.facts.sdk)
    reader.begin()
    run = phone.probe.run(spec)
    end = run.end
    well = end is not None and end.why == "exit" and end.signal is None and end.exit_code not in _NOT_STARTED
    log = PhoneLog() if well else reader.read()
    plan = order.plan.model_copy(update={"cell_timeout_s": START_S})
    told = RunnerLog(junk=tuple(run.stdout.decode("utf-8", "replace").splitlines()))
    facts = phone.facts
    evidence = Evidence(order.cell, plan, run, told, 0, facts.ram_bytes, phone_log=log.lines, phone_log_gap=log.gap)
    objection = next(why_not_started(evidence), None)
    if objection is None:
        return None
    _keep(
        subject.run_dir / "raw" / f"links-{number}", {"stdout": run.stdout, "stderr": run.stderr, "logcat": log.lines}
    )
    env = [f"{key}={value}" for key, value in (step.env or {}).items()]
    again = on_adb(subject, shlex.join([*(["env", *env] if env else []), *step.argv]))
    outcome = broke(objection.reason, objection.detail, evidence=[objection.evidence])
    causes = triaged(texts_of(evidence))
    outcome = library_named(with_cause(outcome, causes[0]) if causes else outcome, order.files)
    return replace(outcome, reproduce=again, raw=f"raw/links-{number}/")


def why_not_started(evidence: Evidence) -> Iterator[Objection]:
    """Yield what speaks against a program having started: the kernel's, the loader's or the shell's word."""
    stderr, end = evidence.run.stderr, evidence.run.end
    if end is not None and end.why == "spawn_failed" and end.errno in _SPAWN:
        yield Objection(*_SPAWN[end.errno])
    yield from ended_by_itself(evidence)
    for line in find_link_errors(stderr):
        yield Objection(Reason.LINK_ERROR, line, stderr.decode("utf-8", "replace"))
    if end is not None and end.exit_code in _NOT_STARTED:
        said = stderr.decode("utf-8", "replace").strip()
        detail = f"exit code {end.exit_code}: {said[-300:] or 'without a word'}"
        yield Objection(_NOT_STARTED[end.exit_code], detail, said)


def library_named(outcome: Outcome, files: Collection[str]) -> Outcome:
    """Return a link error with the library that is missing for its cause, whichever loader says so.

    ``files`` are those of the bundle that are on the phone.
    """
    match = _MISSING.search(outcome.detail)
    if match is None or outcome.reason is not Reason.LINK_ERROR:
        return outcome
    name = match["glibc"] or match["bionic"]
    here = f"{name} is among the files of the bundle, but the loader does not look there"
    away = f"{name} is neither among the files of the bundle nor on this phone where the loader looks"
    beside = name in files
    advice = _LOOK_BESIDE if beside else (f"Add {name}, built for this ABI, to the bundle, or link it statically.",)
    cause = f"The program cannot be loaded without a library: {here if beside else away}."
    return replace(outcome, code="missing_shared_library", cause=cause, advice=advice)


def with_cause(outcome: Outcome, finding: Finding) -> Outcome:
    """Return a rung that broke, with a cause that a record's findings hold."""
    evidence = telling([finding.evidence, *outcome.evidence])
    advice = (finding.advice,) if finding.advice else outcome.advice
    return replace(outcome, code=finding.code, cause=finding.cause or finding.title, advice=advice, evidence=evidence)


def _keep(folder: Path, texts: dict[str, bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_bytes(text)
