"""The one enum of reasons: why a cell is not ``ok``, whose fault that is, and what pytest makes of it.

The table in ``docs/reasons.md`` is made from this module (:func:`markdown_table`), so that they cannot differ.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Verdict(str, Enum):
    """What became of a cell."""

    OK = "ok"
    REJECTED = "rejected"
    FAILED = "failed"
    UNSUPPORTED = "unsupported"
    SKIPPED = "skipped"


class Fault(str, Enum):
    """Whose fault it is when a cell is not ``ok``."""

    PRODUCT = "product"
    INFRA = "infra"
    CONFIG = "config"
    HARNESS = "harness"


class Outcome(str, Enum):
    """The pytest outcome of a cell."""

    PASSED = "passed"
    SKIPPED = "skipped"
    FAILED = "failed"
    ERROR = "error"


class ExitStatus(int, Enum):
    """Exit status of a run; pytest's own are kept where it has one (2 interrupted, 3 internal, 5 nothing)."""

    OK = 0
    FAILED = 1
    USAGE = 4
    INFRA = 10
    NO_PHONE = 11


class _Facts(NamedTuple):
    verdict: Verdict
    fault: Fault
    says: str


class Reason(Enum):
    """Why a cell is not ``ok``. The value carries verdict, fault and one plain sentence for people."""

    # rejected, product
    BACKEND_FALLBACK = _Facts(Verdict.REJECTED, Fault.PRODUCT, "the engine ran another backend than asked")
    BACKEND_UNPROVEN = _Facts(Verdict.REJECTED, Fault.PRODUCT, "nothing proves which backend ran")
    OUTPUT_WRONG = _Facts(Verdict.REJECTED, Fault.PRODUCT, "the text, or an output, differs from the reference")
    OUTPUT_DEGENERATE = _Facts(
        Verdict.REJECTED, Fault.PRODUCT, "the text is empty or repeats itself, or an output is one number"
    )
    TOKEN_COUNT_SHORT = _Facts(
        Verdict.REJECTED, Fault.PRODUCT, "fewer tokens or inferences came out than were asked for"
    )
    IMPLAUSIBLE_SPEED = _Facts(Verdict.REJECTED, Fault.PRODUCT, "the speed is not physically possible")
    # rejected, infra
    NOISY = _Facts(Verdict.REJECTED, Fault.INFRA, "the repeats differ too much, or threads left their cores")
    HOT_START = _Facts(Verdict.REJECTED, Fault.INFRA, "the phone was too hot when the cell began")
    THROTTLED = _Facts(Verdict.REJECTED, Fault.INFRA, "the phone throttled during a burst cell")
    SUSPENDED = _Facts(Verdict.REJECTED, Fault.INFRA, "the phone slept during the cell")
    CLOCK_JUMPED = _Facts(Verdict.REJECTED, Fault.INFRA, "the phone's clock jumped during the cell")
    LOW_AVAILABLE_MEMORY = _Facts(Verdict.REJECTED, Fault.INFRA, "too little memory was free on the phone")
    # rejected, harness
    UNPARSED_OUTPUT = _Facts(Verdict.REJECTED, Fault.HARNESS, "the runner's output could not be read")
    STALE_CACHE = _Facts(Verdict.REJECTED, Fault.HARNESS, "a cache of another model or build was used")
    # failed, product
    CRASH = _Facts(Verdict.FAILED, Fault.PRODUCT, "the runner was killed by a signal")
    ILLEGAL_INSTRUCTION = _Facts(Verdict.FAILED, Fault.PRODUCT, "the CPU lacks an instruction the binary uses")
    LINK_ERROR = _Facts(Verdict.FAILED, Fault.PRODUCT, "the linker could not load the binary")
    LOAD_ERROR = _Facts(Verdict.FAILED, Fault.PRODUCT, "the engine could not load the model")
    ENGINE_ERROR = _Facts(Verdict.FAILED, Fault.PRODUCT, "the engine reported an error")
    GPU_DRIVER_ERROR = _Facts(Verdict.FAILED, Fault.PRODUCT, "the GPU driver reported an error")
    OUT_OF_MEMORY = _Facts(Verdict.FAILED, Fault.PRODUCT, "the phone ran out of memory")
    HANG = _Facts(Verdict.FAILED, Fault.PRODUCT, "the runner did not end before its deadline")
    SILENT_EXIT = _Facts(Verdict.FAILED, Fault.PRODUCT, "the runner ended without a result or an error")
    THERMAL_SHUTDOWN = _Facts(Verdict.FAILED, Fault.PRODUCT, "the phone shut down from heat")
    # failed, infra
    DEVICE_LOST = _Facts(Verdict.FAILED, Fault.INFRA, "the phone disappeared from adb")
    DEVICE_OFFLINE = _Facts(Verdict.FAILED, Fault.INFRA, "adb lists the phone as offline")
    UNAUTHORIZED = _Facts(Verdict.FAILED, Fault.INFRA, "the phone does not accept this computer's adb key")
    REBOOTED = _Facts(Verdict.FAILED, Fault.INFRA, "the phone rebooted")
    PUSH_FAILED = _Facts(Verdict.FAILED, Fault.INFRA, "a file could not be pushed")
    PAYLOAD_CORRUPT = _Facts(Verdict.FAILED, Fault.INFRA, "a file differs from what was pinned or pushed")
    NO_SPACE = _Facts(Verdict.FAILED, Fault.INFRA, "the phone's storage is full")
    READ_ONLY = _Facts(Verdict.FAILED, Fault.INFRA, "the phone's storage is read-only")
    NOEXEC = _Facts(Verdict.FAILED, Fault.INFRA, "the phone does not run programs from this folder")
    ADB_ERROR = _Facts(Verdict.FAILED, Fault.INFRA, "adb failed")
    LEASE_LOST = _Facts(Verdict.FAILED, Fault.INFRA, "somebody else took the phone")
    THERMAL_TRIP = _Facts(Verdict.FAILED, Fault.INFRA, "the run was stopped to protect a hot phone")
    LINK_STALLED = _Facts(Verdict.FAILED, Fault.INFRA, "the connection to the phone stalled")
    HOST_DISK_FULL = _Facts(Verdict.FAILED, Fault.INFRA, "this computer's disk is full")
    # failed, config
    BAD_PLAN = _Facts(Verdict.FAILED, Fault.CONFIG, "the plan asks for something impossible")
    MODEL_INCOMPLETE = _Facts(Verdict.FAILED, Fault.CONFIG, "a file of the model is missing, broken or another model's")
    BUNDLE_MISMATCH = _Facts(
        Verdict.FAILED, Fault.CONFIG, "the device binaries do not belong together, or not with the model"
    )
    # failed, harness
    HARNESS_ERROR = _Facts(Verdict.FAILED, Fault.HARNESS, "mnn-farm itself failed")
    # unsupported
    BACKEND_NOT_BUILT = _Facts(Verdict.UNSUPPORTED, Fault.PRODUCT, "the device binaries lack this backend")
    BACKEND_MISSING_ON_PHONE = _Facts(Verdict.UNSUPPORTED, Fault.PRODUCT, "the phone has no driver for it")
    ABI_MISMATCH = _Facts(Verdict.UNSUPPORTED, Fault.PRODUCT, "no device binaries for this phone's ABI")
    ISA_MISMATCH = _Facts(Verdict.UNSUPPORTED, Fault.PRODUCT, "the phone's CPU lacks a needed feature")
    MODEL_TOO_BIG = _Facts(Verdict.UNSUPPORTED, Fault.PRODUCT, "the model does not fit in the phone's memory")
    OP_UNSUPPORTED = _Facts(Verdict.UNSUPPORTED, Fault.PRODUCT, "the backend lacks an operator of the model")
    # skipped
    LOW_BATTERY = _Facts(Verdict.SKIPPED, Fault.INFRA, "the phone's battery is low")
    TOO_HOT = _Facts(Verdict.SKIPPED, Fault.INFRA, "the phone did not cool down in time")
    BUSY = _Facts(Verdict.SKIPPED, Fault.INFRA, "somebody else is using the phone")
    HELD = _Facts(Verdict.SKIPPED, Fault.INFRA, "the phone is held or quarantined")
    EXCLUDED = _Facts(Verdict.SKIPPED, Fault.INFRA, "the plan leaves this cell out")
    OUT_OF_TIME = _Facts(Verdict.SKIPPED, Fault.INFRA, "the time budget was spent")
    PHONE_GONE = _Facts(Verdict.SKIPPED, Fault.INFRA, "the phone was lost before the cell began")

    @property
    def code(self) -> str:
        """The name used in records, reports and JUnit, e.g. ``backend_fallback``."""
        return self.name.lower()

    @property
    def verdict(self) -> Verdict:
        """The verdict that this reason belongs to."""
        return self.value.verdict

    @property
    def fault(self) -> Fault:
        """Whose fault it is."""
        return self.value.fault

    @property
    def says(self) -> str:
        """One plain clause for people, without a full stop."""
        return self.value.says

    @property
    def outcome(self) -> Outcome:
        """What pytest reports for a cell with this reason."""
        if self.verdict in (Verdict.UNSUPPORTED, Verdict.SKIPPED):
            return Outcome.SKIPPED
        return Outcome.FAILED if self.fault in (Fault.PRODUCT, Fault.INFRA) else Outcome.ERROR

    @property
    def exit_status(self) -> ExitStatus:
        """Exit status of a run in which this is the only thing that is not ``ok``."""
        if self.outcome is Outcome.SKIPPED:
            return ExitStatus.OK
        return ExitStatus.INFRA if self.fault is Fault.INFRA else ExitStatus.FAILED

    @classmethod
    def from_code(cls, code: str) -> Reason:
        """Return the reason named ``code``.

        Raises:
            ValueError: nobody defined such a reason.
        """
        try:
            return cls[code.upper()]
        except KeyError:
            raise ValueError(f"unknown reason code {code!r}") from None


def markdown_table() -> str:
    """Return the documentation's table of reasons."""
    rows = ["| reason | verdict | fault | pytest | exit | meaning |", "| --- | --- | --- | --- | --- | --- |"]
    rows += [
        f"| `{r.code}` | {r.verdict.value} | {r.fault.value} | {r.outcome.value} | {r.exit_status.value} | {r.says} |"
        for r in Reason
    ]
    return "\n".join(rows) + "\n"
