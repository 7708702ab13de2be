from __future__ import annotations

import pickle
from typing import Any

import pytest

from harness.core.errors import (
    AdbFailedError,
    BundleError,
    ConfigError,
    DeadlineError,
    FarmError,
    HarnessError,
    HostError,
    ModelIncompleteError,
    ModelRunError,
    PhoneError,
    PhoneGoneError,
    PhoneLostError,
    PhoneOfflineError,
    ProbeError,
    RunGoneError,
    ShellError,
    TransferError,
    UnauthorizedError,
)
from harness.core.reasons import Fault, Reason

ONE_OF_EACH: list[FarmError] = [
    FarmError("it broke", remedy="mend it", reason=Reason.BUSY),
    ConfigError("no such plan", remedy="name one"),
    ModelIncompleteError("no weights"),
    BundleError("archive_unsafe", "leads out", remedy="pack it again"),
    ModelRunError("not resized", reason=Reason.LOAD_ERROR),
    HostError("no adb"),
    HarnessError("our bug"),
    PhoneError("toy-1", "odd"),
    PhoneGoneError("toy-1", "not back", reason=Reason.LINK_STALLED),
    PhoneLostError("toy-1", "gone", remedy="replug it"),
    PhoneOfflineError("toy-1", "offline"),
    UnauthorizedError("toy-1", "no key"),
    DeadlineError("toy-1", "pushing", 2.5),
    AdbFailedError("toy-1", "FAIL"),
    ShellError("toy-1", ["ls", "-l"], 7, b"out\xff", b"err\xfe"),
    TransferError("toy-1", "/data/x", "write failed: No space left on device"),
    ProbeError("toy-1", "no JSON", reason=Reason.NOEXEC),
    RunGoneError("toy-1", "no run"),
]


def tree(base: type[FarmError]) -> set[type[FarmError]]:
    return {base}.union(
        *(tree(child) for child in base.__subclasses__() if child.__module__.startswith("harness.core"))
    )


def test_there_is_an_example_of_every_class_of_the_tree() -> None:
    assert {type(error) for error in ONE_OF_EACH} == tree(FarmError)


@pytest.mark.parametrize("error", ONE_OF_EACH, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
def test_errors_cross_process_borders_whole(error: FarmError, protocol: int) -> None:
    back = pickle.loads(pickle.dumps(error, protocol))  # noqa: S301
    assert type(back) is type(error)
    assert vars(back) == vars(error)
    assert (str(back), back.args, back.reason, back.infra, back.transient) == (
        str(error),
        error.args,
        error.reason,
        error.infra,
        error.transient,
    )


@pytest.mark.parametrize(
    ("error", "says", "reason"),
    list(zip(
        ONE_OF_EACH,
        [
            "it broke: mend it",
            "no such plan: name one",
            "no weights",
            "leads out: pack it again",
            "not resized",
            "no adb",
            "our bug",
            "toy-1: odd",
            "toy-1: not back",
            "toy-1: gone: replug it",
            "toy-1: offline",
            "toy-1: no key",
            "toy-1: pushing was not done after 2.5 s",
            "toy-1: FAIL",
            "toy-1: ls ended with 7 (err\ufffd)",
            "toy-1: /data/x: write failed: No space left on device",
            "toy-1: no JSON",
            "toy-1: no run",
        ],
        [
            "busy", "bad_plan", "model_incomplete", "bundle_mismatch", "load_error", "adb_error", "harness_error",
            "adb_error", "link_stalled", "device_lost", "device_offline", "unauthorized", "link_stalled", "adb_error",
            "adb_error", "no_space", "noexec", "adb_error",
        ],
        strict=True,
    )),
    ids=[type(error).__name__ for error in ONE_OF_EACH],
)  # fmt: skip
def test_errors_are_one_sentence_with_a_reason(error: FarmError, says: str, reason: str) -> None:
    assert (str(error), error.reason.code) == (says, reason)
    assert error.infra == (Reason.from_code(reason).fault is Fault.INFRA)


def test_a_reason_of_one_error_does_not_stick_to_its_class() -> None:
    assert ProbeError("toy-1", "x", reason=Reason.NOEXEC).reason is Reason.NOEXEC
    assert ProbeError("toy-1", "x").reason is Reason.HARNESS_ERROR


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"mkdir: '/data/x': No space left on device", Reason.NO_SPACE),
        (b"sh: can't create /data/x: Read-only file system", Reason.READ_ONLY),
        (b"mkdir: '/data/x': Permission denied", Reason.ADB_ERROR),
    ],
)
def test_a_command_that_storage_refused_says_so(said: bytes, reason: Reason) -> None:
    assert ShellError("toy-1", ["mkdir"], 1, b"", said).reason is reason


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("write failed: No space left on device", Reason.NO_SPACE),
        ("write failed: Disk quota exceeded", Reason.NO_SPACE),
        ("couldn't create file: Read-only file system", Reason.READ_ONLY),
        ("couldn't create file: Permission denied", Reason.PUSH_FAILED),
        ("", Reason.PUSH_FAILED),
    ],
)
def test_a_refused_file_says_why(message: str, reason: Reason) -> None:
    assert TransferError("toy-1", "/data/x", message).reason is reason
    assert TransferError("toy-1", "/data/x", message, reason=Reason.PAYLOAD_CORRUPT).reason is Reason.PAYLOAD_CORRUPT


@pytest.mark.parametrize(
    ("argv", "out", "err", "says"),
    [
        (["ls"], b"", b"", "toy-1: ls ended with 1"),
        (["ls"], b" out \n", b"", "toy-1: ls ended with 1 (out)"),
        (["ls"], b"out", b"err", "toy-1: ls ended with 1 (err)"),
        ([], b"", b"", "toy-1: ? ended with 1"),
        (["ls"], b"", b"x" * 1000, "toy-1: ls ended with 1 (" + "x" * 500 + ")"),
    ],
)
def test_a_failed_command_shows_its_last_words(argv: list[str], out: bytes, err: bytes, says: str) -> None:
    error: Any = ShellError("toy-1", argv, 1, out, err)
    assert str(error) == says
    assert (error.argv, error.exit_code, error.stdout, error.stderr) == (tuple(argv), 1, out, err)
