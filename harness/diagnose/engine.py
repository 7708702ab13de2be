"""The rungs on which the engine runs: each is one cell, which every law of a benchmark judges."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from harness.bench.estimate import estimate_s
from harness.core.reasons import Reason, Verdict
from harness.diagnose import rungs
from harness.diagnose.fits import with_cause
from harness.diagnose.rung import Outcome, Rung, State, broke, explained, held, unknown
from harness.diagnose.setting import Setting, Shape, plan_of
from harness.diagnose.subject import Subject
from harness.payload.engine_needs import too_old
from harness.runners.events import parse_runner_output
from harness.store.schema import CellRecord
from harness.triage.triage import Source

# A large model gets so many times longer than a slow phone of its tier should need; below, there is patience enough.
_PATIENCE, _SOON_S = 8.0, 2.0
_FEW_TOKENS = 4
# Some phones never allow their top clock; one that is held below this share is throttled.
_CAPPED = 0.7
# All threads that reach less than this share of what one reaches are too many.
_CLIFF = 0.7
_TAIL = 256
_TEXTS = ("stderr", "stdout", "logcat")
# They spoil a figure, not the answer to whether it works: told, and judged where heat is the question.
_SPOILS_FIGURES = frozenset(
    {
        Reason.NOISY, Reason.HOT_START, Reason.THROTTLED, Reason.LOW_AVAILABLE_MEMORY, Reason.CLOCK_JUMPED,
    }
)  # fmt: skip
# The engine took the model and broke on it, or the program never came so far.
_BEFORE_TOKENS = frozenset(
    {Reason.LOAD_ERROR, Reason.LINK_ERROR, Reason.BAD_PLAN, Reason.MODEL_INCOMPLETE, Reason.BUNDLE_MISMATCH}
)
# What it printed last may tell why it gave up.
_WITHOUT_A_WORD = frozenset({Reason.ENGINE_ERROR, Reason.SILENT_EXIT})
# There is nothing left to look at below.
_LOST = frozenset({Reason.DEVICE_LOST, Reason.DEVICE_OFFLINE, Reason.UNAUTHORIZED, Reason.PHONE_GONE})
# The program was ended amid its work: how far it came tells more than the end itself.
_CUT_SHORT = frozenset({Reason.HANG, Reason.CRASH, Reason.ILLEGAL_INSTRUCTION, Reason.OUT_OF_MEMORY})
_OF_TEXT = frozenset({Reason.OUTPUT_WRONG, Reason.OUTPUT_DEGENERATE})


@dataclass(frozen=True)
class Ran:
    """A setting that was run and what became of it."""

    setting: Setting
    shape: Shape
    record: CellRecord


class Engine:
    """Runs settings on the phone, and remembers what was run where a rung broke."""

    def __init__(self, subject: Subject, ground: Callable[[], Outcome | None] = lambda: None) -> None:
        """``ground`` tells how what held below broke meanwhile, ``None`` if it did not."""
        self._subject = subject
        self._ground = ground
        self._first: Ran | None = None
        self._failed: dict[str, Ran] = {}
        self._held: list[Ran] = []

    def failed_of(self, rung: Rung) -> Ran | None:
        """Return what was run on a rung that broke, ``None`` where nothing was."""
        return self._failed.get(rung.name)

    def held_like(self, failed: Ran) -> dict[Setting, bool]:
        """Return the settings that did all that was asked where one failed; to do less of it shows nothing."""
        return {ran.setting: True for ran in self._held if ran.shape.asks_as(failed.shape)}

    def run(self, setting: Setting, shape: Shape) -> Ran:
        """Run one setting as a cell of a plan of its own."""
        subject = self._subject
        plan, cell = plan_of(setting, shape, subject.model.name)
        expected_s = estimate_s(cell, plan, subject.model, subject.phone.tier) - (shape.duration_s or 0.0)
        shape = replace(shape, patience_s=shape.patience_s + _PATIENCE * max(0.0, expected_s - _SOON_S))
        plan, cell = plan_of(setting, shape, subject.model.name)
        subject.session.context = replace(subject.context, plan=plan)
        return Ran(setting, shape, subject.session.run_cell(cell))

    # The rungs

    def loads(self) -> Outcome:
        """The engine takes the model; the same run goes on to a few tokens, which the next rung judges."""
        sizes = self._subject.request.sizes
        setting = replace(self._subject.base, prompt_tokens=_FEW_TOKENS)
        self._first = ran = self.run(setting, Shape(_FEW_TOKENS, sizes.patience_s, compared=False))
        record = ran.record
        if record.reason is None or (loaded(record, self._raw(record)) and record.why not in _BEFORE_TOKENS):
            load_ms = record.metrics.load_ms if record.metrics is not None else None
            return self._of(record, held("loaded" if load_ms is None else f"loaded in {load_ms / 1000:.2f} s"))
        return self._broke(ran, rungs.LOAD)

    def first_token_comes(self) -> Outcome:
        """It computes at all."""
        ran = self._first if self._first is not None else self.run(self._subject.base, self._compared)
        record = ran.record
        # A few tokens are no text yet.
        if record.reason is None or record.why in _OF_TEXT | _SPOILS_FIGURES:
            count = sum(sample.generated_tokens for sample in record.samples)
            return self._of(record, held(f"{count} tokens after a prompt of {ran.setting.prompt_tokens}"))
        return self._broke(ran, rungs.TOKEN)

    def text_is_right(self) -> Outcome:
        """It says what the same model says on this computer."""
        ran = self.run(self._subject.base, self._compared)
        outcome = self._judge(ran, rungs.TEXT)
        output = ran.record.output
        if outcome.state is State.HELD and (output is None or output.match is None):
            why = ran.record.nulls.get("match", "there is no reference")
            return self._of(ran.record, unknown(f"it is language, and compared with nothing: {why}"))
        return outcome

    def all_threads(self) -> Outcome:
        """As many threads as the phone has cores."""
        cores = self._subject.cores
        if cores == 1:
            return unknown("the phone has one core")
        ran = self.run(replace(self._subject.base, threads=cores), self._compared)
        outcome = self._judge(ran, rungs.THREADS)
        one = next((each for each in self._held if each.setting == self._subject.base), None)
        before, now = (None if each is None else _decode_tps(each.record) for each in (one, ran))
        if outcome.state is State.HELD and before and now and now < _CLIFF * before:
            said = f"slower than 1 thread, {before:.1f} tok/s: slow cores hold the fast ones up, take fewer threads"
            outcome = replace(outcome, detail=f"{outcome.detail}; {said}")
        return outcome

    def gpu(self, backend: str) -> Callable[[], Outcome]:
        """Return the rung of a GPU backend: it is there, is really used, and computes rightly."""

        def test() -> Outcome:
            ran = self.run(replace(self._best, backend=backend), self._compared)
            outcome = self._judge(ran, rungs.GPU[backend])
            if not outcome.is_absence or backend in self._subject.request.backends:
                return outcome
            # Nobody asked for it: our own bundle offers everything, and a build without it was built so.
            if ran.record.why is Reason.BACKEND_NOT_BUILT or self._subject.request.bundle_word is None:
                return unknown(outcome.detail)
            return outcome

        return test

    def long_prompt(self) -> Outcome:
        """A prompt as long as apps send them."""
        sizes, most = self._subject.request.sizes, self._subject.context_tokens
        length = min(sizes.long_prompt, most - sizes.generate_tokens if most else sizes.long_prompt)
        if length <= sizes.prompt_tokens:
            return unknown(f"the model's context of {most} tokens has no room for a longer one")
        return self._judge(self.run(replace(self._best, prompt_tokens=length), self._compared), rungs.PROMPT)

    def goes_on(self) -> Outcome:
        """Generate without a pause; throttling breaks this rung, whatever is left of the speed."""
        shape = replace(self._compared, duration_s=self._subject.request.sizes.sustain_s)
        ran = self.run(self._best, shape)
        outcome = self._judge(ran, rungs.SUSTAINED)
        if outcome.state is not State.HELD:
            return outcome
        hot = heat_of(ran.record) or next(iter(self._subject.warm), "")
        if not hot:
            slower = next((one.title for one in ran.record.findings if one.code == "speed"), "")
            return replace(outcome, detail="; ".join(filter(None, (outcome.detail, slower))))
        self._failed[rungs.SUSTAINED.name] = ran
        thermal = broke(Reason.THROTTLED, hot, advice=_COOLER)
        return self._of(ran.record, replace(thermal, code="thermal_throttling", cause=_HEAT))

    def works(self, like: Ran) -> Callable[[Setting], bool]:
        """Return the trial of a workaround: does a setting do what ``like`` did not?"""

        def trial(setting: Setting) -> bool:
            self._subject.say(f"trying {setting.words()}")
            record = self.run(setting, like.shape).record
            enough = _SPOILS_FIGURES if like.shape.compared else _SPOILS_FIGURES | _OF_TEXT
            return record.reason is None or record.why in enough

        return trial

    # Judging

    @property
    def _compared(self) -> Shape:
        sizes = self._subject.request.sizes
        return Shape(sizes.generate_tokens, sizes.patience_s)

    @property
    def _best(self) -> Setting:
        """The CPU with all its threads: it held, or the climb had ended."""
        return replace(self._subject.base, threads=self._subject.cores)

    def _judge(self, ran: Ran, rung: Rung) -> Outcome:
        record = ran.record
        if record.reason is None:
            self._held.append(ran)
            return self._of(record, held(_figures(record)))
        if record.why in _SPOILS_FIGURES:
            self._held.append(ran)
            if record.why is Reason.THROTTLED:
                self._subject.warm.append(record.detail)
            return self._of(record, held(f"it works; its figures are spoilt ({record.reason}: {record.detail})"))
        return self._broke(ran, rung)

    def _broke(self, ran: Ran, rung: Rung) -> Outcome:
        record, reason = ran.record, ran.record.why
        if reason is Reason.BAD_PLAN and record.raw is None:  # this runner, or this model, cannot be asked for that
            return self._of(record, unknown(record.detail))
        assert reason is not None  # noqa: S101  only records with a reason come here
        # A disk that filled meanwhile looks like a lease that was lost, a bug of ours, or an engine's error.
        below = self._ground() if reason not in _LOST and record.verdict is not Verdict.UNSUPPORTED else None
        if below is not None:
            seen = f"{below.detail}; with that {reason.code}: {record.detail}"
            return self._of(record, replace(below, detail=seen))
        self._failed[rung.name] = ran
        outcome = broke(reason, record.detail, evidence=[finding.evidence for finding in record.findings[:2]])
        outcome = replace(outcome, cause=_CAUSES.get(reason, outcome.cause), advice=_ADVICE.get(reason, outcome.advice))
        if reason in _CUT_SHORT and record.raw is not None:
            outcome = replace(outcome, detail=f"{outcome.detail}; {last_word(self._raw(record), record)}")
        if reason is Reason.UNPARSED_OUTPUT and not outcome.evidence:
            outcome = replace(outcome, evidence=unreadable(self._raw(record)))
        if reason in _WITHOUT_A_WORD and record.raw is not None and not outcome.evidence:
            outcome = replace(outcome, evidence=last_line(self._raw(record), "stderr") or unreadable(self._raw(record)))
        known = next((finding for finding in record.findings if finding.cause), None)
        outcome = explained(outcome, list(self._texts(record))) if known is None else with_cause(outcome, known)
        if rung in (rungs.LOAD, rungs.TOKEN):
            outcome = self._perhaps_too_old(outcome, record)
        return self._of(record, outcome)

    def _perhaps_too_old(self, outcome: Outcome, record: CellRecord) -> Outcome:
        """Name an engine that may be too old for the model, where it fails to load or to use it."""
        model, version = self._subject.model, record.bundle.engine_version or self._subject.engine_version
        old = None
        if self._subject.bundle.manifest.engine == "MNN":
            old = too_old(version, model.engine_version, model.engine_needs)
        if old is None:
            return outcome
        cause = outcome.cause if outcome.code else f"The engine may be too old for the model: {old.says}."
        code = outcome.code or "model_engine_version_mismatch"
        advice, evidence = (old.fix, *outcome.advice), (old.says, *outcome.evidence)
        return replace(outcome, cause=cause, code=code, advice=advice, evidence=evidence)

    def _texts(self, record: CellRecord) -> Iterator[Source]:
        for name in _TEXTS:
            file = self._raw(record) / name
            if record.raw is not None and file.is_file():
                yield Source(name, lambda file=file: file.open("rb"))  # type: ignore[misc]

    def _raw(self, record: CellRecord) -> Path:
        return self._subject.run_dir / (record.raw or "raw")

    def _of(self, record: CellRecord, outcome: Outcome) -> Outcome:
        return replace(outcome, record=record.cell_id[:12], raw=record.raw)


_COOLER = (
    "Let the phone cool, take it out of its case and off the charger, and climb again.",
    "If it throttles again: fewer threads, shorter answers, or pauses between them; plan soak measures what is left.",
)
_HEAT = "The phone lowers its clocks to protect itself from heat: what it does in the first seconds does not last."


# Where the list of reasons speaks of a figure, and here it is about whether the thing works.
_CAUSES = {
    Reason.UNPARSED_OUTPUT: "What the program printed is no runner's account: it is garbled, cut off, or of another "
    "version of the runner.",
    Reason.HANG: "The program neither ended nor failed in all the time it was given: it waits for something that does "
    "not come, or computes without end.",
}
_ADVICE = {
    Reason.HANG: (
        "Run the command below and, meanwhile, `adb shell top -H -n 1`: a thread of it at 100 % computes without end; "
        "if all sleep, they wait for each other.",
        "If it hangs only with several threads, keep to one, and build MNN with -DMNN_USE_THREAD_POOL=OFF as a test; "
        "if only on the GPU, use the CPU.",
        "Only slow? Climb again with a longer `--patience`.",
    ),
}


def last_line(raw: Path, name: str) -> tuple[str, ...]:
    """Return what a program printed last on ``name``, nothing where that is no text."""
    file = raw / name
    said = file.read_bytes()[-_TAIL:] if file.is_file() else b""
    line = said.decode("utf-8", "replace").strip().rpartition("\n")[2]
    return (f"{name} ends with: {line}",) if line and "\ufffd" not in line else ()


def unreadable(raw: Path) -> tuple[str, ...]:
    """Return what a program printed in place of an account, as text or, where it is none, as bytes."""
    out = raw / "stdout"
    said = out.read_bytes() if out.is_file() else b""
    if not said:
        return ("stdout is empty",)
    return last_line(raw, "stdout") or (
        f"stdout, {len(said)} bytes, ends with what is no text: {said[-_TAIL // 8 :].hex(' ')}",
    )


def last_word(raw: Path, record: CellRecord) -> str:
    """Return how far a run came by its own words."""
    out = raw / "stdout"
    if record.bundle.runner != "farm_runner" or not out.is_file():
        return "how far it came is not told"
    told = parse_runner_output(out.read_bytes())
    if told.generations:
        return f"it had answered {len(told.generations)} prompt(s)"
    if told.load is not None:
        return "the model was loaded, no answer was finished"
    return "the program had started, the model was not loaded" if told.hello is not None else "it had not said a word"


def loaded(record: CellRecord, raw: Path) -> bool:
    """Whether the engine had the model loaded before a run ended, by its own words."""
    if record.samples or (record.metrics is not None and record.metrics.load_ms is not None):
        return True
    if record.verdict is Verdict.UNSUPPORTED or record.raw is None or record.bundle.runner != "farm_runner":
        return False
    out = raw / "stdout"
    return out.is_file() and parse_runner_output(out.read_bytes()).load is not None


def heat_of(record: CellRecord) -> str:
    """Return how a phone throttled in a sustained cell, in a clause; ``""`` if it did not."""
    thermal = record.thermal
    if thermal is None:
        return ""
    if not thermal.throttled:
        capped = thermal.clock_ratio_min
        if capped is None or capped >= _CAPPED:
            return ""
        return f"its clocks were held down to {capped:.0%} of what they can be: it is hot, or it saves power"
    after = "" if thermal.onset_s is None else f" after {thermal.onset_s:.1f} s"
    speeds = ""
    if thermal.burst_tps is not None and thermal.sustained_tps is not None:
        speeds = f": {thermal.burst_tps:.1f} tok/s before, {thermal.sustained_tps:.1f} in the end"
    clock = "" if thermal.clock_ratio_min is None else f", clocks down to {thermal.clock_ratio_min:.0%}"
    return f"it throttled{after}{speeds}{clock} (judged by {thermal.judged_by})"


def _decode_tps(record: CellRecord) -> float | None:
    decode = record.metrics.decode_tps if record.metrics is not None else None
    return None if decode is None else decode.median


def _figures(record: CellRecord) -> str:
    decode = _decode_tps(record)
    match = record.output.match if record.output is not None else None
    words = ["" if decode is None else f"{decode:.1f} tok/s", "" if match is None else f"text: {match}"]
    proof = record.backend.strength if record.backend is not None else "none"
    return ", ".join([*filter(None, words), f"backend {record.config.backend} proven by {proof}"])
