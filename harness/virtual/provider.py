"""The provider ``virtual``: starts the supervisor and tells the harness where the phones are."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence

from harness.core.errors import ConfigError, HarnessError, HostError
from harness.core.provider import Endpoint
from harness.core.resources import cache_dir
from harness.core.transport import Transport
from harness.virtual import wire
from harness.virtual.profile import load_profile, profile_names
from harness.virtual.words import parse_word, wanted_profiles

_ANSWER_SECONDS = 90.0
_STOP_SECONDS = 10.0


class VirtualPhones:
    """Phones for ``virtual:N`` and ``virtual:PROFILE[*N]``. Gone when :meth:`stop` returns or we are killed."""

    def __init__(self) -> None:
        self._supervisor: subprocess.Popen[bytes] | None = None

    def check(self, word: str) -> str | None:
        """Return what is wrong with the part after ``virtual:``, ``None`` if nothing."""
        try:
            parse_word(word, profile_names())
        except ValueError as error:
            return str(error).removeprefix(f"virtual:{word}: ")
        return None

    def start(self, words: Sequence[str]) -> list[Endpoint]:
        """Bring up the phones for all ``words`` together, in their order.

        Raises:
            ConfigError: a word or a profile makes no sense.
            HostError: this computer cannot.
        """
        if self._supervisor is not None:
            raise HarnessError("the virtual phones were started twice")
        try:
            profiles = wanted_profiles(words, profile_names())
        except ValueError as error:
            raise ConfigError(str(error)) from error
        for name in dict.fromkeys(profiles):
            load_profile(name)
        try:
            log = cache_dir("virtual") / "supervisor.log"
            with log.open("ab") as errors:
                self._supervisor = subprocess.Popen(
                    [sys.executable, "-m", "harness.virtual.supervisor"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    start_new_session=True,
                )
        except OSError as error:
            raise HostError(
                f"{error.filename or 'the cache'} cannot be written ({error.strerror})",
                remedy="set MNN_FARM_CACHE to a folder of yours",
            ) from error
        try:
            return wire.decode_answer(self._ask(wire.Request(tuple(profiles), os.getpid()), str(log)))
        except BaseException:
            self.stop()
            raise

    def _ask(self, request: wire.Request, log: str) -> bytes:
        process = self._supervisor
        if process is None or process.stdin is None or process.stdout is None:
            raise HarnessError("the supervisor of the virtual phones has no pipes")
        with contextlib.suppress(BrokenPipeError):  # it ended already: the answer's end tells
            process.stdin.write(wire.encode_request(request))
            process.stdin.flush()
        line = b""
        end = time.monotonic() + _ANSWER_SECONDS
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([process.stdout], [], [], max(0.0, end - time.monotonic()))
            part = os.read(process.stdout.fileno(), 65536) if ready else b""
            if not part:
                how = f"ended with {process.poll()}" if ready else f"did not answer in {_ANSWER_SECONDS:g} s"
                raise HarnessError(f"the supervisor of the virtual phones {how}", remedy=f"see the end of {log}")
            line += part
        return line

    def stop(self) -> None:
        """Take all phones down and wait until they are gone; harmless twice."""
        process, self._supervisor = self._supervisor, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def transport(self, endpoint: Endpoint) -> Transport | None:
        """``None``: a virtual phone is reached through adb like any other."""
        return None
