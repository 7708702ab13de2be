"""Who a phone is: a UUID in a file of ours on it, checked against its hardware.

So neither a cable nor a port nor a serial that two phones share decides who it is. A file that was copied from another
phone does not fit the hardware and is replaced.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from harness.core.deadline import Deadline
from harness.core.errors import AdbFailedError, ShellError
from harness.core.ids import content_id
from harness.core.transport import Transport, checked
from harness.phone.facts import Facts
from harness.phone.getprop import parse_getprop

ID_FILE = "phone-id.json"
# Where serialno, model and soc of the facts come from.
_TOLD_BY = (
    ("ro.serialno",), ("ro.product.model",), ("ro.soc.model", "ro.hardware.chipname", "ro.board.platform"),
)  # fmt: skip


@dataclass(frozen=True)
class Identity:
    """``id`` stays with the phone; ``note`` says why it is new, if it is."""

    id: str
    note: str = ""


def hardware_fingerprint(facts: Facts) -> str:
    """Hash of what does not change while a phone stays the same phone: no Android version, no boot, no port."""
    return content_id(
        {
            "serialno": facts.serialno,
            "model": facts.model,
            "soc": facts.soc,
            "cores": facts.cores,
            # What the kernel keeps for itself changes with updates, always by less than the memory is sold in.
            "ram_gib": None if facts.ram_bytes is None else -(-facts.ram_bytes // 1024**3),
        }
    )[:16]


def parse_identity(data: bytes, hardware: str) -> Identity | None:
    """Return the identity in a phone's file, ``None`` if the file is damaged or belongs to other hardware."""
    try:
        held = json.loads(data)
        return Identity(str(uuid.UUID(held["id"]))) if held["hardware"] == hardware else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def known_identity(transport: Transport, facts: Facts, deadline: Deadline) -> Identity | None:
    """Read the phone's identity and write nothing; ``None`` if it has none that fits.

    Raises:
        PhoneError: the phone cannot be reached.
    """
    read = transport.shell(["cat", f"{transport.base_dir}/{ID_FILE}"], deadline=deadline)
    return parse_identity(read.stdout, hardware_fingerprint(facts)) if read.exit_code == 0 else None


def read_id(data: bytes) -> str | None:
    """Return the id in a phone's file whatever its hardware; ``None`` if the file is damaged."""
    try:
        return str(uuid.UUID(json.loads(data)["id"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _first(properties: Mapping[str, str], *keys: str) -> str | None:
    return next((properties[key].strip() for key in keys if properties.get(key, "").strip()), None)


def _make_sure(transport: Transport, path: str, file: bytes, facts: Facts, deadline: Deadline) -> None:
    """Read again, between marks, what speaks against the identity on the phone: its file, and its properties.

    Raises:
        AdbFailedError: it does not arrive whole, or not as it did before.
    """
    argv = ["sh", "-c", 'echo file; cat "$1"; echo; echo facts; getprop; echo end', "sh", path]
    told = transport.shell(argv, deadline=deadline)
    held, _, rest = told.stdout.partition(b"\nfacts\n")
    properties = parse_getprop(rest.removesuffix(b"end\n"))
    whole = held == b"file\n" + file and rest.endswith(b"end\n")
    told_now = tuple(_first(properties, *keys) for keys in _TOLD_BY)
    if not whole or told_now != (facts.serialno, facts.model, facts.soc):
        raise AdbFailedError(transport.name, "what it tells of itself does not arrive as it was sent")


def identify(transport: Transport, facts: Facts, deadline: Deadline) -> Identity:
    """Read the phone's identity; write a new one if it has none that fits.

    Raises:
        PhoneError: the phone cannot be reached or the file cannot be written.
    """
    path = f"{transport.base_dir}/{ID_FILE}"
    hardware = hardware_fingerprint(facts)
    read = transport.shell(["cat", path], deadline=deadline)
    if read.exit_code == 0:
        known = parse_identity(read.stdout, hardware)
        if known is not None:
            return known
        # A connection that loses bytes must not cost a phone its name.
        _make_sure(transport, path, read.stdout, facts, deadline)
    new = Identity(
        str(uuid.uuid4()),
        note="first seen" if read.exit_code else "its identity file was damaged or came from another phone",
    )
    content = json.dumps({"id": new.id, "hardware": hardware}).encode()
    # Written under another name first: two hosts that meet a new phone at once must not mix their bytes.
    script = 'cat >"$1.$3" && { [ -e "$1" ] && [ "$2" = keep ] && rm "$1.$3" || mv "$1.$3" "$1"; }'
    argv = ["sh", "-c", script, "sh", path, "keep" if read.exit_code else "replace", new.id[:8]]
    checked(transport.shell(argv, deadline=deadline, stdin=content), transport.name, argv)
    back = transport.shell(["cat", path], deadline=deadline)
    settled = parse_identity(back.stdout, hardware)
    if settled is None:
        raise ShellError(transport.name, ["cat", path], back.exit_code, back.stdout, back.stderr)
    return settled if settled.id != new.id else new
