"""Bringing payloads to a host: once per host by content, in pieces, so that no memory holds a whole model."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from harness.core.errors import HostError
from harness.lab.intake import SILENCE_S, Answer
from harness.lab.parcel import Packed

# Asks the host: method and arguments.
Ask = Callable[..., Any]
_AGAIN_S = 0.5
# A payload of many gigabytes over a slow line takes its time, but somebody else's sending is not waited for for ever.
_LONGEST_WAIT_S = 6 * 3600.0


def bring(
    packed: Packed,
    sender: str,
    ask: Ask,
    say: Callable[[str], None] = lambda _: None,
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> bool:
    """See that a host has a payload; return whether it was sent.

    Raises:
        FarmError: the host does not take it.
        HostError: another controller sends it and does not come to an end.
    """
    parcel = packed.parcel
    name = parcel.hash
    waited = 0.0
    while (answer := ask("offer", parcel, sender)) is Answer.WAIT:
        waited += _AGAIN_S
        if waited > _LONGEST_WAIT_S + SILENCE_S:
            raise HostError(f"another controller is sending payload {name[:12]} and does not end")
        sleep(_AGAIN_S)
    if answer is Answer.HERE:
        return False
    say(f"sending {parcel.size / 1e6:.1f} MB in {len(parcel.files)} files")
    for file in parcel.files:
        for offset, data in packed.chunks(file.path):
            ask("put", name, sender, file.path, offset, data)
    ask("finish", name, sender)
    return True
