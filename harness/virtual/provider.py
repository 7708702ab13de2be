"""The provider ``virtual``: starts the supervisor and tells the harness where the phones are."""

from __future__ import annotations

from collections.abc import Sequence

from harness.core.errors import ConfigError, HarnessError
from harness.core.provider import Endpoint
from harness.core.transport import Transport
from harness.virtual.launch import Launched
from harness.virtual.profile import load_profile, profile_names
from harness.virtual.words import parse_word, wanted_profiles


class VirtualPhones:
    """Phones for ``virtual:N`` and ``virtual:PROFILE[*N]``. Gone when :meth:`stop` returns or we are killed."""

    def __init__(self) -> None:
        self._supervisor: Launched | None = None

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
        self._supervisor = Launched()
        try:
            return self._supervisor.bring_up(profiles)
        except BaseException:
            self._supervisor = None
            raise

    def stop(self) -> None:
        """Take all phones down and wait until they are gone; harmless twice."""
        supervisor, self._supervisor = self._supervisor, None
        if supervisor is not None:
            supervisor.stop()

    def transport(self, endpoint: Endpoint) -> Transport | None:
        """``None``: a virtual phone is reached through adb like any other."""
        return None
