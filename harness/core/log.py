"""Loggers that name the phone, so that the log of twenty phones at once can still be read."""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    _Adapter = logging.LoggerAdapter[logging.Logger]
else:
    # Python 3.10's takes no type in brackets at run time.
    _Adapter = logging.LoggerAdapter


class PhoneLogger(_Adapter):
    """Puts ``[phone]`` before each message."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Prefix the message with the phone's name."""
        name = (self.extra or {}).get("phone", "?")
        return f"[{name}] {msg}", kwargs


def phone_logger(module: str, phone: str) -> PhoneLogger:
    """Return the logger of ``module`` for one phone."""
    return PhoneLogger(logging.getLogger(module), {"phone": phone})
