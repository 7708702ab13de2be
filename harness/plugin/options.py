"""The command line: our options, made from the plan model where they override it, and what they amount to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import ConfigError
from harness.payload.bundle import Bundle, default_bundle, read_bundle
from harness.payload.models import ModelFolder, find_model, read_model
from harness.plan.load import find_plan, load_plan, plan_names
from harness.plan.model import Plan, plan_options

DEFAULT_PLAN = "quick"
# Our options that take a value, besides those made from the plan.
_WITH_VALUE = ("--devices", "--plan", "--model", "--bundle", "--run-dir", "--adb")


def add_options(parser: pytest.Parser) -> None:
    """Register every option of ours."""
    group = parser.getgroup("mnn-farm", "mnn-farm: benchmarks on phones (nothing touches a phone without --devices)")
    group.addoption(
        "--devices",
        metavar="SPEC[,SPEC]",
        help="which phones: all; a serial; usb:PATH; transport:N; model=GLOB; soc=GLOB; tier=high|mid|low; sdk=33 or "
        "sdk=33+; virtual:N; virtual:PROFILE[*N]; host (this PC); not:SPEC leaves out. "
        "Example: pytest --devices tier=high,not:usb:1-4.2",
    )
    group.addoption(
        "--adb",
        metavar="HOST:PORT[,HOST:PORT]",
        help="adb servers, here or on lab hosts (default: this computer's own)",
    )
    group.addoption(
        "--strict-health",
        action="store_true",
        help="a chosen phone that cannot be used ends the run before anything starts, with exit status 10 "
        "(default: it is left out and named with its reason)",
    )
    group.addoption(
        "--plan", metavar="NAME|FILE", help=f"which cells to run: {', '.join(plan_names())} or a file (default: quick)"
    )
    group.addoption(
        "--model",
        metavar="DIR|NAME",
        action="append",
        help="MNN model folder (with config.json) or a name known to `mnn-farm models`; again for more",
    )
    group.addoption("--bundle", metavar="DIR", help="device binaries (default: those that come with mnn-farm)")
    group.addoption("--run-dir", metavar="DIR", help="new folder for the results (default: reports/<run-id>)")
    group.addoption(
        "--dry-run-plan",
        action="store_true",
        help="print the cells per phone and the time they should take; run nothing",
    )
    for option in plan_options():
        metavar = "N[,N]" if option.numeric and option.is_list else "N" if option.numeric else "WORD[,WORD]"
        group.addoption(option.flag, metavar=metavar, dest=f"mnn_{option.field}", help=option.help.replace("%", "%%"))


def join_values(args: Sequence[str]) -> list[str]:
    """Return ``args`` with ``--model DIR`` written as ``--model=DIR``, and so for each option of ours.

    pytest looks for its root folder and ini file before plugins' options are known, and takes every bare path that
    exists for a test path: ``--model DIR`` would make the model's folder the root, and put a cache folder into it.
    """
    flags = {*_WITH_VALUE, *(option.flag for option in plan_options())}
    joined: list[str] = []
    rest = iter(args)
    for arg in rest:
        value = next(rest, None) if arg in flags else None
        joined.append(arg if value is None else f"{arg}={value}")
    return joined


def needs_devices(config: pytest.Config) -> str | None:
    """Return the first option that was given and means nothing without ``--devices``."""
    names = {"--plan": "plan", "--model": "model", "--bundle": "bundle", "--run-dir": "run_dir"}
    names |= {"--dry-run-plan": "dry_run_plan", "--adb": "adb", "--strict-health": "strict_health"}
    names.update({option.flag: f"mnn_{option.field}" for option in plan_options()})
    return next((flag for flag, dest in names.items() if config.getoption(dest)), None)


@dataclass(frozen=True)
class Request:
    """What the command line asks for, read and checked."""

    plan_name: str
    plan: Plan
    models: dict[str, ModelFolder]
    bundle: Bundle


def read_request(config: pytest.Config) -> Request:
    """Read plan, models and bundle.

    Raises:
        ConfigError: one sentence with what is wrong, where, and what to do.
    """
    overrides: dict[str, tuple[str, Any]] = {}
    for option in plan_options():
        text = config.getoption(f"mnn_{option.field}")
        if text is not None:
            overrides[option.field] = (f"{option.flag} {text}", option.parse(text))
    given = config.getoption("model")
    if given:
        overrides["models"] = ("--model", given)
    name = config.getoption("plan") or DEFAULT_PLAN
    plan = load_plan(find_plan(name), overrides)
    models = {wanted: read_model(find_model(wanted)) for wanted in plan.models}
    hashes = [model.folder.hash for model in models.values()]
    if len(set(hashes)) < len(hashes):
        raise ConfigError("two of the models are the same files", remedy="name each model once")
    bundle = config.getoption("bundle")
    return Request(name, plan, models, read_bundle(Path(bundle)) if bundle else default_bundle())
