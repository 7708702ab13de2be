"""The one error tree.

::

    FarmError                      carries reason (verdict, fault), remedy
    ├── ConfigError                what was asked for makes no sense; known before anything runs
    │   ├── ModelIncompleteError   a model folder lacks a file it names, or one is broken or not its own
    │   └── BundleError            device binaries that cannot be used; carries the check that found it
    ├── ModelRunError              the engine on this computer cannot run a model, or ran it otherwise than asked
    ├── HostError                  this computer cannot do it: no adb, no sandbox, no compiler, port in use
    ├── PhoneError                 something about one phone; carries its name
    │   ├── PhoneLostError         the transport went away
    │   ├── PhoneGoneError         it did not come back, whatever was tried; the reason is its last state
    │   ├── PhoneOfflineError      adb lists it as offline, connecting, …
    │   ├── UnauthorizedError      the key was not accepted
    │   ├── DeadlineError          what was awaited, where, how long
    │   ├── AdbFailedError         the adb server answered FAIL or broke the protocol
    │   ├── ShellError             a command on the phone failed; carries argv, exit code, output
    │   ├── TransferError          a push or pull failed; the reason tells full from read-only from the rest
    │   └── ProbeError             our probe on the phone refused or broke
    │       └── RunGoneError       the run that was asked for is not there, or its probe was killed
    └── HarnessError               a bug of ours

``infra`` tells whether cable, adb, disk or a busy phone is to blame; ``transient`` whether a second try may help.
Errors pickle, because they cross process borders (pytest-xdist).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.core.reasons import Fault, Reason


class FarmError(Exception):
    """Base of all errors we raise. One sentence says what and where; ``remedy`` says what to do."""

    reason: Reason = Reason.HARNESS_ERROR
    transient: bool = False

    def __init__(self, message: str, *, remedy: str = "", reason: Reason | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        if reason is not None:
            self.reason = reason

    @property
    def infra(self) -> bool:
        """Whether the lab and not the product is to blame."""
        return self.reason.fault is Fault.INFRA

    def __str__(self) -> str:
        return f"{self.message}: {self.remedy}" if self.remedy else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.args, self.__dict__))


def _rebuild(cls: type[FarmError], args: tuple[Any, ...], state: dict[str, Any]) -> FarmError:
    error = cls.__new__(cls)
    Exception.__init__(error, *args)
    error.__dict__.update(state)
    return error


class ConfigError(FarmError):
    """What was asked for makes no sense: a typo in a plan, an unknown device, a bad option."""

    reason = Reason.BAD_PLAN


class ModelIncompleteError(ConfigError):
    """A model folder lacks a file that its configuration names, or one is broken or belongs to another model."""

    reason = Reason.MODEL_INCOMPLETE


class BundleError(ConfigError):
    """Device binaries, or an archive of them, cannot be used. ``check`` names it as ``docs/bundles.md`` does."""

    reason = Reason.BUNDLE_MISMATCH

    def __init__(self, check: str, message: str, *, remedy: str = "", reason: Reason | None = None) -> None:
        super().__init__(message, remedy=remedy, reason=reason)
        self.check = check


class ModelRunError(FarmError):
    """The engine on this computer cannot load or run a model, or ran it otherwise than asked."""

    reason = Reason.ENGINE_ERROR


class HostError(FarmError):
    """This computer cannot do what is needed: adb missing, no sandbox allowed, a port in use."""

    reason = Reason.ADB_ERROR


class HarnessError(FarmError):
    """A bug of ours."""


class PhoneError(FarmError):
    """Something about one phone. ``phone`` is its name for people."""

    reason = Reason.ADB_ERROR

    def __init__(self, phone: str, message: str, *, remedy: str = "", reason: Reason | None = None) -> None:
        super().__init__(f"{phone}: {message}", remedy=remedy, reason=reason)
        self.phone = phone


class PhoneLostError(PhoneError):
    """The phone disappeared from adb."""

    reason = Reason.DEVICE_LOST
    transient = True


class PhoneGoneError(PhoneError):
    """The phone did not come back, whatever was tried. ``of_host``: for want of an adb server, not of the phone."""

    reason = Reason.DEVICE_LOST
    of_host: bool = False


class PhoneOfflineError(PhoneError):
    """adb lists the phone, but not as usable."""

    reason = Reason.DEVICE_OFFLINE
    transient = True


class UnauthorizedError(PhoneError):
    """The phone has not accepted this computer's adb key."""

    reason = Reason.UNAUTHORIZED


class DeadlineError(PhoneError):
    """A deadline passed. ``what`` names what was awaited, ``seconds`` how long."""

    reason = Reason.LINK_STALLED
    transient = True

    def __init__(self, phone: str, what: str, seconds: float) -> None:
        super().__init__(phone, f"{what} was not done after {seconds:g} s")
        self.what = what
        self.seconds = seconds


class AdbFailedError(PhoneError):
    """The adb server answered FAIL, or what came was not its protocol."""


class ShellError(PhoneError):
    """A command on the phone ended with another exit code than expected."""

    def __init__(
        self, phone: str, argv: Sequence[str], exit_code: int, stdout: bytes = b"", stderr: bytes = b""
    ) -> None:
        said = (stderr or stdout).decode("utf-8", "replace").strip()[-500:]
        super().__init__(
            phone,
            f"{argv[0] if argv else '?'} ended with {exit_code}" + (f" ({said})" if said else ""),
            reason=storage_reason(said),
        )
        self.argv = tuple(argv)
        self.exit_code = exit_code
        self.stdout = stdout
        self.stderr = stderr


class TransferError(PhoneError):
    """A push or a pull failed; ``path`` is the path on the phone."""

    reason = Reason.PUSH_FAILED

    def __init__(self, phone: str, path: str, message: str, *, reason: Reason | None = None) -> None:
        super().__init__(phone, f"{path}: {message}", reason=reason or storage_reason(message))
        self.path = path


def storage_reason(message: str) -> Reason | None:
    """Read what adbd, tools and our probe print of a storage that takes nothing (bionic's and glibc's texts agree)."""
    if any(text in message for text in ("No space left on device", "Disk quota exceeded", "ENOSPC", "EDQUOT")):
        return Reason.NO_SPACE
    if "Read-only file system" in message or "EROFS" in message:
        return Reason.READ_ONLY
    return None


class ProbeError(PhoneError):
    """Our probe on the phone refused or answered something that is not its protocol."""

    reason = Reason.HARNESS_ERROR


class RunGoneError(ProbeError):
    """The run that was asked for is not there, or the phone killed its probe: nobody's benchmark's fault."""

    reason = Reason.ADB_ERROR
