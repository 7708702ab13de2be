"""Starts a supervisor and asks it for phones."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence

from harness.core.errors import HarnessError, HostError
from harness.core.provider import Endpoint
from harness.core.resources import cache_dir
from harness.virtual import wire

_ANSWER_SECONDS = 90.0
_STOP_SECONDS = 10.0


class Launched:
    """A supervisor that was started. It ends when we do, unless it is detached."""

    def __init__(self, *, detached: bool = False) -> None:
        """Start one.

        Raises:
            HostError: its log cannot be written.
        """
        self._detached = detached
        try:
            self._log = cache_dir("virtual") / "supervisor.log"
            with self._log.open("ab") as errors:
                self.process = subprocess.Popen(
                    [sys.executable, "-m", "harness.virtual.supervisor"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    start_new_session=True,
                    cwd="/",
                )
        except OSError as error:
            raise HostError(
                f"{error.filename or 'the cache'} cannot be written ({error.strerror})",
                remedy="set MNN_FARM_CACHE to a folder of yours",
            ) from error

    def bring_up(self, profiles: Sequence[str]) -> list[Endpoint]:
        """Ask for one phone per profile; whatever goes wrong takes everything down.

        Raises:
            HostError, ConfigError: what the supervisor met with.
            HarnessError: it does not answer.
        """
        try:
            return wire.decode_answer(self._ask(wire.Request(tuple(profiles), os.getpid(), self._detached)))
        except BaseException:
            self.stop()
            raise

    def _ask(self, request: wire.Request) -> bytes:
        stdin, stdout = self.process.stdin, self.process.stdout
        if stdin is None or stdout is None:
            raise HarnessError("the supervisor of the virtual phones has no pipes")
        with contextlib.suppress(BrokenPipeError):  # it ended already: the answer's end tells
            stdin.write(wire.encode_request(request))
            stdin.flush()
        line = b""
        end = time.monotonic() + _ANSWER_SECONDS
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([stdout], [], [], max(0.0, end - time.monotonic()))
            part = os.read(stdout.fileno(), 65536) if ready else b""
            if not part:
                how = f"ended with {self.process.poll()}" if ready else f"did not answer in {_ANSWER_SECONDS:g} s"
                raise HarnessError(f"the supervisor of the virtual phones {how}", remedy=f"see the end of {self._log}")
            line += part
        return line

    def close_pipes(self) -> None:
        """Let go of it: a detached one lives on, any other ends."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def stop(self) -> None:
        """Take all phones down and wait until they are gone."""
        self.close_pipes()
        if self._detached:
            self.process.terminate()
        try:
            self.process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
