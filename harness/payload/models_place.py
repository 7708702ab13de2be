"""The folder of models that mnn-farm keeps in the user's cache: who may write one, and how it appears whole or not."""

from __future__ import annotations

import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from harness.core.errors import ConfigError, HostError
from harness.core.resources import cache_dir
from harness.payload.folder import PayloadFolder
from harness.payload.model_pins import SUFFIX, write_pin

_LOCK_S = 3600
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def place_of(name: str) -> Path:
    """Return the folder that a kept model of this name has."""
    return cache_dir("models") / name


def kept_models() -> list[str]:
    """Return the names of the models that are kept, sorted."""
    return sorted(path.parent.name for path in cache_dir("models").glob("[!.]*/config.json"))


def check_name(name: str) -> None:
    """Refuse what is no name for a model.

    Raises:
        ConfigError: it is not.
    """
    if not _NAME.fullmatch(name) or name.endswith(SUFFIX):
        raise ConfigError(
            f"{name!r} is no name for a model", remedy="give one of letters, digits, dots and dashes with --name"
        )


@contextmanager
def scratch_of(name: str, what: str, say: Callable[[str], None]) -> Iterator[Path]:
    """Give the caller alone a scratch folder beside the model's place; it is removed afterwards.

    Args:
        name: of the model.
        what: what the caller does, for whoever waits, e.g. ``fetching``.
        say: is told when another process has to be waited for.

    Raises:
        HostError: another process has it for too long, or the disk refuses.
    """
    models = cache_dir("models")
    lock = FileLock(models / f".{name}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        say(f"another process is {what} {name}; waiting for it")
        try:
            lock.acquire(timeout=_LOCK_S)
        except Timeout:
            raise HostError(f"another process has been {what} {name} for {_LOCK_S} s") from None
    scratch = models / f".{name}.tmp-{secrets.token_hex(4)}"
    try:
        for left in models.glob(f".{name}.tmp-*"):  # of a process that was killed: we hold its lock
            shutil.rmtree(left, ignore_errors=True)
        scratch.mkdir()
        yield scratch
    except OSError as error:
        raise HostError(f"{name} cannot be written to {models} ({error.strerror})") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        lock.release()


def keep(made: PayloadFolder, name: str, scratch: Path, source: str, engine_version: str | None) -> Path:
    """Pin a whole folder in ``scratch`` and move it to its place; one that is there goes.

    The pin comes first: whoever is stopped between the two leaves a model that is refused, not one that is trusted.
    """
    place = place_of(name)
    write_pin(place, made, source, engine_version)
    if place.exists():
        place.replace(scratch / "old")
    made.root.replace(place)
    return place
