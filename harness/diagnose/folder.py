"""The run folder of a diagnosis: its head, and the plans by which its cells can be run again."""

from __future__ import annotations

import os
import platform
import shlex
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import harness
from harness.bench.phone import ConnectedPhone
from harness.core.ids import iso, utc_now
from harness.core.toml import format_toml
from harness.diagnose.asked import Request
from harness.diagnose.setting import Setting, Shape, plan_of, plan_values
from harness.diagnose.subject import Subject
from harness.store.head import FleetMember, RunInfo, Source
from harness.store.runfolder import RunFolder, write_atomically

PLAN_NAME = "diagnose"


def write_head(subject: Subject, command: Sequence[str]) -> None:
    """Write ``run.json``, with what is known by now, so that the folder is a run's as soon as it has a record.

    Raises:
        FarmError: this computer's disk does not take it.
    """
    request, model = subject.request, subject.model
    plan, _ = plan_of(subject.base, _shape(request), model.name)
    folder = subject.bundle.folder.root.resolve()
    RunFolder(subject.run_dir).write_info(
        RunInfo(
            run_id=subject.run_id,
            started=iso(utc_now()),
            command=tuple(command),
            harness_version=harness.__version__,
            versions={"python": platform.python_version(), "adbutils": version("adbutils")},
            host={"system": platform.platform(), "machine": platform.machine(), "cpus": str(os.cpu_count())},
            plan_name=PLAN_NAME,
            plan=plan.model_dump(mode="json", by_alias=True),
            fleet=(_member(subject.phone),),
            models={model.name: Source(name=model.name, hash=model.folder.hash, folder=str(model.folder.root))},
            bundle=Source(name=subject.bundle.manifest.name, hash=subject.bundle.hash, folder=str(folder)),
        )
    )


def _member(phone: ConnectedPhone) -> FleetMember:
    facts = phone.facts
    nulls = {**phone.nulls, **facts.nulls}
    return FleetMember(phone=phone.info, provider=phone.endpoint.provider, facts=facts.as_dict(), nulls=nulls)


def _shape(request: Request) -> Shape:
    return Shape(request.sizes.generate_tokens, request.sizes.patience_s)


def write_plan(subject: Subject, name: str, setting: Setting, shape: Shape) -> str:
    """Write a plan of exactly one cell into the run folder, and return the command that runs it."""
    file = subject.run_dir / f"{name}.toml"
    table = format_toml(plan_values(setting, shape, str(subject.model.folder.root)))
    write_atomically(file, f"# Written by mnn-farm diagnose: {setting.words()}.\n{table}".encode())
    return pytest_command(subject.request, file)


def pytest_command(request: Request, plan: Path) -> str:
    """Return the benchmark's command for a plan of a diagnosis."""
    words = ["pytest", "--devices", request.device, "--plan", _near(plan)]
    words += ["--bundle", request.bundle_word] if request.bundle_word is not None else []
    words += ["--adb", request.adb] if request.adb is not None else []
    return shlex.join(words)


def _near(path: Path) -> str:
    """Return a path as people write it: from where they are, where it lies below."""
    resolved, here = path.resolve(), Path.cwd().resolve()
    return str(resolved.relative_to(here)) if resolved.is_relative_to(here) else str(resolved)
