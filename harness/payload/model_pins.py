"""Pins: what a model folder held when it was imported or fetched, to be compared at every use.

A corrupted model misleads phone and PC alike: its speed is right, often its text too, and the copy on the phone equals
the one on the PC. So each file's size and SHA-256 are written down once, outside the folder, whose own content hash is
not changed by that: beside models that mnn-farm keeps, in the user's state for folders that lie elsewhere.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.core.errors import ConfigError, HostError
from harness.core.ids import iso, utc_now
from harness.core.reasons import Reason
from harness.core.resources import cache_dir, data_root, state_dir
from harness.payload.folder import PayloadFile, PayloadFolder
from harness.payload.model_problem import Problem

SCHEMA = 1
SUFFIX = ".pin.json"


@dataclass(frozen=True)
class Pin:
    """What a folder held.

    Attributes:
        files: every file in it, by path.
        pinned: when, in UTC.
        source: where it came from: a folder, or what it was fetched from.
        engine_version: of MNN's converter that wrote the graph, ``None`` where it does not say.
    """

    files: tuple[PayloadFile, ...]
    pinned: str
    source: str
    engine_version: str | None


def pin_file(folder: Path) -> Path:
    """Return where the pin of a folder lies, whether there is one or not."""
    folder = folder.resolve()
    if folder.parent in (cache_dir("models").resolve(), data_root().joinpath("profiles", "models").resolve()):
        return folder.with_name(folder.name + SUFFIX)
    return state_dir("pins") / f"{hashlib.sha256(os.fsencode(folder)).hexdigest()[:32]}.json"


def write_pin(folder: Path, content: PayloadFolder, source: str, engine_version: str | None) -> Pin:
    """Pin ``content`` as that of ``folder``; an older pin is replaced.

    Raises:
        HostError: the pin cannot be written.
    """
    files = tuple(PayloadFile(file.path, file.size, file.sha256) for file in content.files)
    pin = Pin(files, iso(utc_now()), source, engine_version)
    value = {"schema": SCHEMA, "folder": folder.resolve().name, **asdict(pin)}
    value["files"] = [{"path": file.path, "size": file.size, "sha256": file.sha256} for file in files]
    try:
        place = pin_file(folder)
        scratch = place.with_name(f".{place.name}.tmp-{secrets.token_hex(4)}")
        try:
            scratch.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
            scratch.replace(place)
        finally:
            scratch.unlink(missing_ok=True)
    except OSError as error:
        raise HostError(f"the pin of {folder} cannot be written ({error})", remedy="see MNN_FARM_STATE") from error
    return pin


def read_pin(folder: Path) -> Pin | None:
    """Return the pin of a folder, ``None`` when it was never pinned.

    Raises:
        ConfigError: there is one and it cannot be read; the reason is ``payload_corrupt``.
    """
    try:
        place = pin_file(folder)
    except OSError:  # the folder for pins can neither be found nor made, so there is none in it
        return None
    try:
        return _pin(json.loads(place.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"the pin of {folder} cannot be read from {place} ({error})",
            remedy=f"check the model and pin it again: mnn-farm models import --in-place {folder}",
            reason=Reason.PAYLOAD_CORRUPT,
        ) from error


def _pin(value: Any) -> Pin:
    if value["schema"] != SCHEMA:
        raise ValueError(f"schema {value['schema']} instead of {SCHEMA}")
    files = tuple(PayloadFile(str(f["path"]), int(f["size"]), str(f["sha256"])) for f in value["files"])
    version = value["engine_version"]
    return Pin(files, str(value["pinned"]), str(value["source"]), None if version is None else str(version))


def check_pin(pin: Pin, content: PayloadFolder, get_again: str) -> Iterator[Problem]:
    """Yield each file that is not as it was pinned.

    Args:
        pin: what was.
        content: what is.
        get_again: how to get what was, for people.
    """
    fix = f"{get_again}; to accept it as it is: mnn-farm models import --in-place {content.root}"
    there = {file.path: file for file in content.files}
    pinned = {file.path: file for file in pin.files}
    for name in sorted(there.keys() | pinned.keys()):
        is_now, was = there.get(name), pinned.get(name)
        if was is None:
            says = "was not there"
        elif is_now is None:
            says = f"had {_content(was)} and is missing"
        elif (was.size, was.sha256) != (is_now.size, is_now.sha256):
            says = f"had {_content(was)} and has {_content(is_now)}"
        else:
            continue
        detail = f"{content.root / name} is not what was pinned: on {pin.pinned} it {says}"
        yield Problem("pin_differs", detail, fix, reason=Reason.PAYLOAD_CORRUPT)


def _content(file: PayloadFile) -> str:
    return f"{file.size} bytes with SHA-256 {file.sha256[:16]}…"
