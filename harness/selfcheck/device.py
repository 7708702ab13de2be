"""The phone that ``--device`` names, made the subject of a self-check."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from harness.adb.server import AdbServer
from harness.adb.transport import AdbTransport
from harness.core.provider import load_provider
from harness.fleet.one import one_phone
from harness.selfcheck.subject import Subject


@contextmanager
def subject_called(word: str) -> Iterator[Subject]:
    """Reach the phone that ``word`` means; a provider's phone is up meanwhile.

    What it cannot do is no error here: that is what the checks are for.

    Raises:
        ConfigError: nobody has such a phone, or the word means several.
        FarmError: it is there and cannot be used.
    """
    with one_phone(word) as endpoint:
        own = None if endpoint.provider == "adb" else load_provider(endpoint.provider).transport(endpoint)
        if own is not None:
            yield Subject(own, None)
        else:
            yield Subject(AdbTransport(endpoint), AdbServer(endpoint.adb_host, endpoint.adb_port))
