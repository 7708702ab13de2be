"""The command line: our options, made from the plan model where they override it, and what they amount to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from harness.bench.start import PLAN_OF_RUN
from harness.core.errors import ConfigError
from harness.payload.bundle import Bundle, best_bundle
from harness.payload.bundle_manifest import Target
from harness.payload.chosen import bundle_source, bundles_of, model_sources, models_of
from harness.payload.models import ModelFolder
from harness.payload.push_slots import DEFAULT_SLOTS
from harness.plan.golden import golden_names, with_golden
from harness.plan.known import KNOWN_FILE, Known
from harness.plan.load import find_plan, load_plan, make_plan, plan_names
from harness.plan.model import Plan, plan_options
from harness.plugin.bundles import DEFAULT_ROUNDS, TwoBuilds, two_builds_of
from harness.plugin.compared import read_against, read_known
from harness.plugin.timebox import stop_at
from harness.store.head import RunInfo, SecondBuild, Source
from harness.store.resume import Choice

DEFAULT_PLAN = "quick"
# No computer has more phones.
_MOST = 10_000
# Our options that take a value, besides those made from the plan.
_WITH_VALUE = (
    "--devices",
    "--plan",
    "--model",
    "--bundle",
    "--ab",
    "--ab-rounds",
    "--run-dir",
    "--rerun",
    "--until",
    "--budget",
    "--wait-lease",
    "--max-parallel",
    "--push-slots",
    "--adb",
    "--golden",
    "--against",
    "--known",
)


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
    group.addoption("--bundle", metavar="NAME|DIR", help="device binaries (default: those that come with mnn-farm)")
    group.addoption(
        "--ab",
        metavar="A,B",
        help="two builds of device binaries that take turns on every phone, A B B A, so that drift cancels; the table "
        "at the end and ab.json say what B changed. Example: pytest --devices all --ab mnn-3.5,mnn-3.6",
    )
    group.addoption(
        "--ab-rounds",
        metavar="N",
        help=f"for --ab: so many rounds of four turns (default: {DEFAULT_ROUNDS})",
    )
    group.addoption(
        "--run-dir",
        metavar="DIR",
        help="new folder for the results (default: reports/<run-id>); with --resume or --rerun the folder of a run",
    )
    group.addoption(
        "--resume",
        action="store_true",
        help="finish the run in --run-dir: do the cells that have no final record (ok, unsupported, or the product's "
        "fault) as a new attempt, with the plan, models and bundle of that run. "
        "Example: pytest --devices all --run-dir reports/night --resume",
    )
    group.addoption(
        "--rerun",
        metavar="KEY=NAME[,NAME]",
        action="append",
        help="do again the cells of the run in --run-dir whose record says so: reason=noisy,hot_start, verdict=failed "
        "or fault=infra; again for more; with --resume also what is not finished",
    )
    group.addoption(
        "--until",
        metavar="HH:MM",
        help="start no cell that would not be done by then (local time, tomorrow if it is past today); "
        "what is left is skipped: out_of_time and can be resumed",
    )
    group.addoption(
        "--budget", metavar="TIME", help="the same, counted from now: 8h, 90m, 1h30m or 45s; the earlier one counts"
    )
    group.addoption(
        "--wait-lease",
        metavar="S",
        help="wait up to S seconds for a phone that somebody else is using (default: 0, it is left out)",
    )
    group.addoption(
        "--max-parallel",
        metavar="N",
        help="measure on at most N phones at a time; one that is done makes room for the next (default: all at once)",
    )
    group.addoption(
        "--push-slots",
        metavar="N",
        help="send to at most N phones of one USB hub at a time, whatever runs of this computer send "
        f"(default: {DEFAULT_SLOTS}; see docs/push.md)",
    )
    group.addoption(
        "--golden",
        metavar="FILE|NAME",
        help="questions with expected patterns that judge each configuration: a TOML file of your own with [[ask]] "
        f"tables (question, expect, max_tokens), or one of {', '.join(golden_names())}, none (default: the plan's)",
    )
    group.addoption(
        "--against",
        metavar="RUN|last|none",
        help="run folder to compare with: what was ok there and is not now, or is proven slower, is red and told as "
        "NEW (default: last, the newest earlier run beside this run's folder that has a cell in common)",
    )
    group.addoption(
        "--known",
        metavar="FILE",
        help="known issues, a TOML file of [[known]] tables (ticket, expires, note and what they match); they stay red "
        f"and are told as KNOWN (default: {KNOWN_FILE} in pytest's root folder, if it is there)",
    )
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
    flags = [flag for flag in _WITH_VALUE if flag != "--devices"] + ["--resume", "--dry-run-plan", "--strict-health"]
    names = {flag: flag.removeprefix("--").replace("-", "_") for flag in flags}
    names.update({option.flag: f"mnn_{option.field}" for option in plan_options()})
    return next((flag for flag, dest in names.items() if config.getoption(dest)), None)


@dataclass(frozen=True)
class Request:
    """What the command line asks for, read and checked.

    ``stop_at`` is the moment after which no cell is started, ``wait_lease_s`` the patience with a phone in use,
    ``against`` what ``--against`` says (``None``: nothing), ``known`` the known issues, ``max_parallel`` on how many
    phones is measured at a time (``None``: all), ``push_slots`` to how many of a hub is sent at a time.
    """

    plan_name: str
    plan: Plan
    models: dict[str, ModelFolder]
    bundle: Bundle
    stop_at: datetime | None = None
    wait_lease_s: float = 0.0
    more_bundles: tuple[Bundle, ...] = ()
    against: str | None = None
    known: tuple[Known, ...] = ()
    ab: TwoBuilds | None = None
    max_parallel: int | None = None
    push_slots: int = DEFAULT_SLOTS

    def bundle_for(self, target: Target) -> Bundle:
        """Return the bundle that a phone gets: the first that runs on it; of two that take turns the one called A."""
        return best_bundle((self.bundle, *self.more_bundles), target)

    @property
    def plan_values(self) -> dict[str, Any]:
        """The plan as a run's head holds it."""
        return self.plan.model_dump(mode="json", by_alias=True)

    @property
    def model_sources(self) -> dict[str, Source]:
        """The models as a run's head holds them, by the plan's names."""
        return model_sources(self.models)

    @property
    def bundle_source(self) -> Source:
        """The bundle as a run's head holds it."""
        return bundle_source(self.bundle)

    @property
    def second_build(self) -> SecondBuild | None:
        """What takes turns with it, as a run's head holds it."""
        return None if self.ab is None else SecondBuild(bundle=bundle_source(self.ab.b), rounds=self.ab.rounds)

    @property
    def builds(self) -> int:
        """How many builds each phone runs, which is how many records count of each cell of the plan."""
        return 1 if self.ab is None or self.ab.a.hash == self.ab.b.hash else 2


@dataclass(frozen=True)
class Again:
    """What ``--resume`` and ``--rerun`` ask for: go on in the run folder ``run_dir``."""

    run_dir: Path
    unfinished: bool
    chosen: Choice


def read_again(config: pytest.Config) -> Again | None:
    """Return which run folder is to be gone on with, ``None`` if a new run is wanted.

    Raises:
        ConfigError: no folder is named, or ``--rerun`` cannot be read.
    """
    resume, rerun = config.getoption("resume"), config.getoption("rerun")
    if not resume and not rerun:
        return None
    if not config.getoption("run_dir"):
        raise ConfigError(
            f"{'--resume' if resume else '--rerun'} needs --run-dir: say which run",
            remedy="name its folder, e.g. --run-dir reports/20260101-010203-abcd",
        )
    return Again(Path(config.getoption("run_dir")), resume, Choice.parse(rerun or ()))


def read_request(config: pytest.Config, now: datetime, head: RunInfo | None = None) -> Request:
    """Read plan, models and bundle; those of the run that ``head`` began unless the command line names others.

    ``now`` is the time from which ``--budget`` counts.

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
    name = config.getoption("plan") or (head.plan_name if head is not None else DEFAULT_PLAN)
    if head is not None and not config.getoption("plan"):
        plan = make_plan(head.plan, PLAN_OF_RUN, overrides)
    else:
        plan = load_plan(find_plan(name), overrides)
    plan = with_golden(plan, config.getoption("golden"))
    models = models_of(plan, head if not given else None)
    if config.getoption("bundle") and (config.getoption("ab") or (head is not None and head.ab is not None)):
        raise ConfigError("--ab and --bundle: --ab names both builds", remedy="leave out --bundle")
    ab = two_builds_of(config.getoption("ab"), config.getoption("ab_rounds"), head, plan)
    bundles = (ab.a,) if ab is not None else bundles_of(config.getoption("bundle"), head, plan)
    return Request(
        name,
        plan,
        models,
        bundles[0],
        stop_at=stop_at(config.getoption("until"), config.getoption("budget"), now),
        wait_lease_s=_seconds("--wait-lease", config.getoption("wait_lease")),
        more_bundles=bundles[1:],
        against=read_against(config, head),
        known=read_known(config),
        ab=ab,
        max_parallel=_count("--max-parallel", config.getoption("max_parallel")),
        push_slots=_count("--push-slots", config.getoption("push_slots")) or DEFAULT_SLOTS,
    )


def _count(flag: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= _MOST):
        raise ConfigError(f"{flag} {text}: it is a whole number from 1 to {_MOST}", remedy="write it like 4")
    return int(text)


def _seconds(flag: str, text: str | None) -> float:
    try:
        seconds = float(text or 0)
    except ValueError:
        seconds = math.nan
    if not (0 <= seconds < math.inf):
        raise ConfigError(f"{flag} {text}: it is no number of seconds", remedy="write it like 0, 2.5 or 600")
    return seconds
