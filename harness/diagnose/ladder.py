"""The whole diagnosis: the rungs in their order on one phone, then the nearest settings that work."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from harness.adb.server import AdbServer
from harness.bench.leave import leave_as_found
from harness.core.errors import PhoneError
from harness.core.reasons import Fault, Reason
from harness.diagnose import fits, pc, reach, rungs
from harness.diagnose.asked import GPU_BACKENDS, Request, Say
from harness.diagnose.climb import Began, Climb, Ended, climb
from harness.diagnose.engine import Engine, Ran
from harness.diagnose.folder import write_head, write_plan
from harness.diagnose.nearest import Search, axes_of, find_nearest
from harness.diagnose.rung import Outcome, Rung, Step
from harness.diagnose.setting import Setting
from harness.diagnose.subject import Subject
from harness.fleet.one import one_phone
from harness.fleet.words import read_words
from harness.store.runfolder import RunFolder


@dataclass(frozen=True)
class Workaround:
    """A setting that works where another fails: what is changed, and the command that shows it."""

    setting: Setting
    changed: dict[str, object]
    command: str


@dataclass(frozen=True)
class Diagnosis:
    """What came out.

    Attributes:
        request: what was asked for.
        climb: every rung and what became of it.
        run_dir: the run folder with records, raw output and plans.
        reproduce: the command that shows the failure again, empty where all holds.
        failing: the setting that fails, where a rung broke on which the engine runs.
        workarounds: the nearest settings that work.
        tried: how many settings were run to find them; ``why_none`` says why there are none, or not all.
    """

    request: Request
    climb: Climb
    run_dir: Path
    reproduce: str = ""
    failing: Setting | None = None
    workarounds: tuple[Workaround, ...] = ()
    tried: int = 0
    why_none: str = ""

    @property
    def broken(self) -> tuple[Rung, Outcome] | None:
        """The layer that broke."""
        return self.climb.broken

    @property
    def exit_status(self) -> int:
        """0: all rungs hold; 1: one broke; 3: it broke by a fault of ours."""
        if self.broken is None:
            return 0
        _, outcome = self.broken
        return 3 if outcome.reason is Reason.HARNESS_ERROR and outcome.fault is Fault.HARNESS else 1


@dataclass(frozen=True)
class Watch:
    """Who looks on: told when a rung begins, how it ended, and what happens meanwhile."""

    began: Began = lambda _: None
    ended: Ended = lambda *_: None
    say: Say = lambda _: None


def diagnose(
    request: Request, run_id: str, run_dir: Path, command: Sequence[str], watch: Watch, servers: Sequence[AdbServer]
) -> Diagnosis:
    """Climb on one phone until a layer breaks; the phone is left as it was found, whatever happens.

    Raises:
        ConfigError: what was asked for makes no sense, e.g. there is no such phone.
        HostError: this computer cannot do it.
        FarmError: the run folder cannot be written.
    """
    RunFolder.check_free(run_dir)
    subject = Subject(request, run_id, run_dir, watch.say)
    with ExitStack() as stack:
        try:
            subject.endpoint = stack.enter_context(one_phone(request.device, servers))
        except PhoneError as error:  # it is there and cannot be reached: that is a rung
            subject.unreachable = error
        stack.callback(_leave, subject)
        RunFolder.create(run_dir)
        engine = Engine(subject, lambda: reach.ground_gives_way(subject))
        climbed = climb(_steps(subject, engine, command), watch.began, watch.ended)
        return _with_workarounds(Diagnosis(request, climbed, run_dir), subject, engine, command)


def _leave(subject: Subject) -> None:
    if subject.has("session"):
        subject.session.close()
    elif subject.has("phone"):
        leave_as_found(subject.phone, subject.say)


def _steps(subject: Subject, engine: Engine, command: Sequence[str]) -> list[Step]:
    def fits_and_has_a_folder() -> Outcome:
        outcome = fits.bundle_fits(subject)
        if subject.has("bundle"):
            write_head(subject, command)
        return outcome

    steps = [
        Step(rungs.MODEL, lambda: pc.model_is_whole(subject)),
        Step(rungs.HOST, lambda: pc.host_runs_it(subject)),
        Step(rungs.PHONE, lambda: reach.phone_answers(subject)),
        Step(rungs.STORAGE, lambda: reach.storage_takes_files(subject)),
        Step(rungs.PROBE, lambda: reach.probe_runs(subject)),
        Step(rungs.READY, lambda: reach.phone_is_ready(subject)),
        Step(rungs.BUNDLE, fits_and_has_a_folder),
        Step(rungs.ENGINE, lambda: fits.engine_knows_the_model(subject)),
        Step(rungs.MEMORY, lambda: fits.memory_is_enough(subject)),
        Step(rungs.PAYLOAD, lambda: fits.payload_arrives(subject)),
        Step(rungs.LINKS, lambda: fits.bundle_links(subject)),
        Step(rungs.LOAD, engine.loads),
        Step(rungs.TOKEN, engine.first_token_comes),
        Step(rungs.TEXT, engine.text_is_right),
        Step(rungs.THREADS, engine.all_threads),
    ]
    # Beside each other: that one GPU backend breaks says nothing of the other.
    steps += [Step(rungs.GPU[name], engine.gpu(name), sibling=place > 0) for place, name in enumerate(GPU_BACKENDS)]
    if not subject.request.quick:
        steps += [Step(rungs.PROMPT, engine.long_prompt), Step(rungs.SUSTAINED, engine.goes_on)]
    return steps


def _with_workarounds(found: Diagnosis, subject: Subject, engine: Engine, command: Sequence[str]) -> Diagnosis:
    """Write down how the failure is seen again and, where the engine ran, look for settings that work."""
    if found.broken is None:
        return found
    rung, outcome = found.broken
    ran = engine.failed_of(rung)
    if ran is None:
        return replace(found, reproduce=_again(subject, outcome, command), why_none=_NO_SETTING)
    found = replace(
        found, reproduce=write_plan(subject, "fails", ran.setting, ran.shape), failing=ran.setting, why_none=_NOT_ASKED
    )
    if not subject.request.workaround:
        return found
    if outcome.reason is Reason.THROTTLED:
        return replace(found, why_none=_HOT)
    if outcome.fault is Fault.INFRA:
        return replace(found, why_none=_OF_THE_LAB)
    return _search(found, subject, engine, ran, outcome.reason)


def _again(subject: Subject, outcome: Outcome, command: Sequence[str]) -> str:
    """Return how to see it again. A phone that was brought up for this climb alone is gone: climb once more."""
    lent = bool(read_words(subject.request.device, "--device").provided)
    return again_of(command) if lent and " shell " in outcome.reproduce else outcome.reproduce


def again_of(command: Sequence[str]) -> str:
    """Return the command of a climb for the next one, which wants a run folder of its own."""
    words, left = list(command), []
    while words:
        word = words.pop(0)
        if word == "--run-dir":
            words = words[1:]
        elif not word.startswith("--run-dir="):
            left.append(word)
    return shlex.join(left)


_NO_SETTING = "no setting of the engine changes this layer"
_NOT_ASKED = "not looked for"
_HOT = "each try would need a cool phone: what works for some seconds is the rungs before"
_OF_THE_LAB = "the phone's state or the connection is at fault, not a setting"


def _search(found: Diagnosis, subject: Subject, engine: Engine, ran: Ran, reason: Reason | None) -> Diagnosis:
    seconds = subject.request.sizes.workaround_s
    end = time.monotonic() + seconds
    axes = axes_of(ran.setting, subject.room, reason)

    def is_gone() -> bool:
        return subject.session.gone is not None

    search, ended = Search(), f"the search ended after {seconds:g} s"
    try:
        find_nearest(
            ran.setting,
            axes,
            engine.works(ran),
            engine.held_like(ran),
            is_over=lambda: is_gone() or time.monotonic() >= end,
            search=search,
        )
    except KeyboardInterrupt:  # what the climb has found is worth having
        search.whole, ended = False, "the search was interrupted"
        search.found = search.found or [setting for setting, held in search.tried.items() if held][-1:]
    works = [
        Workaround(setting, ran.setting.changes(setting), write_plan(subject, f"works-{number}", setting, ran.shape))
        for number, setting in enumerate(search.found, 1)
    ]
    none = "" if works or not search.tried else f"none of the {len(search.tried)} settings that were tried works"
    cut = "" if search.whole else "the phone was lost meanwhile" if is_gone() else ended
    return replace(
        found, workarounds=tuple(works), tried=len(search.tried), why_none="; ".join(filter(None, (none, cut)))
    )
