"""The provider of ``--devices host``: this computer through its MNN Python package."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.core.provider import Endpoint
from harness.core.resources import cache_dir
from harness.core.transport import Transport
from harness.host.transport import HostTransport

NAME = "host"
# A getprop of this computer's own, so that its facts are read like a phone's.
_GETPROP = """#!/bin/sh
[ $# -eq 0 ] || exit 0
echo "[ro.product.model]: [$MNN_FARM_HOST_MODEL]"
"""
_PYTHON = """#!/bin/sh
exec "$MNN_FARM_HOST_PYTHON" "$@"
"""


class HostPhone:
    """Provides one phone: this computer."""

    def check(self, word: str) -> str | None:
        """``host`` takes nothing after it."""
        return None if not word else f"host takes no {word!r} after it"

    def start(self, words: Sequence[str]) -> list[Endpoint]:
        """Return this computer, once, however often it was named."""
        return [Endpoint(name=NAME, provider=NAME, transport_serial=NAME, contention_group="host-cpu")]

    def stop(self) -> None:
        """Nothing is running between calls."""

    def transport(self, endpoint: Endpoint) -> Transport | None:
        """Return the transport, with this Python as the phone's ``python3``."""
        folder = cache_dir("host")
        tools = cache_dir("host-tools")
        for name, script in (("getprop", _GETPROP), ("python3", _PYTHON)):
            _write_program(tools / name, script)
        env = {
            "PATH": f"{tools}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "MNN_FARM_HOST_PYTHON": sys.executable,
            "MNN_FARM_HOST_MODEL": f"{platform.system()} {platform.machine()}",
        }
        return HostTransport(endpoint.name, folder, env)


def _write_program(path: Path, script: str) -> None:
    if path.exists() and path.read_text() == script:
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(script)
    temporary.chmod(0o755)
    temporary.replace(path)
