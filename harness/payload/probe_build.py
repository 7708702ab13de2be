"""The probe's compiler: C source to one static program per ABI, once, in the user's cache."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import secrets
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock, Timeout

from harness.core.errors import ConfigError, HostError
from harness.core.resources import cache_dir, data_root

# Android ABI → zig target. Static musl programs run on Android's kernel; no NDK is needed.
ZIG_TARGETS = {"arm64-v8a": "aarch64-linux-musl", "x86_64": "x86_64-linux-musl"}

FLAGS = ("-std=c11", "-O2", "-static", "-s", "-D_GNU_SOURCE")

BUILD_TIMEOUT_S = 300.0


def source_dir() -> Path:
    """Return the folder of the probe's C source."""
    return data_root() / "device_bins" / "probe"


def source_hash() -> str:
    """Return the SHA-256 of names and contents of the probe's source; ``probe version`` tells the same.

    Raises:
        HostError: the source is not there.
    """
    digest = hashlib.sha256()
    files = sorted((*source_dir().glob("*.c"), *source_dir().glob("*.h")), key=lambda path: path.name)
    if not files:
        raise HostError(f"the probe's source is missing in {source_dir()}", remedy="install mnn-farm again")
    for path in files:
        content = path.read_bytes()
        digest.update(f"{path.name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def build_probe(abi: str, *, progress: Callable[[str], None] | None = None) -> Path:
    """Return the probe's program for an Android ABI, built now if this source was never built here.

    Two processes that ask at once build it once.

    Args:
        abi: a key of :data:`ZIG_TARGETS`.
        progress: gets one line before a build begins.

    Raises:
        ConfigError: there is no probe for this ABI.
        HostError: the compiler is missing or failed, or another process builds without end.
    """
    if abi not in ZIG_TARGETS:
        raise ConfigError(f"no probe for the ABI {abi!r}", remedy=f"known are {', '.join(sorted(ZIG_TARGETS))}")
    source = source_hash()
    key = hashlib.sha256("\0".join((source, _zig_version(), *FLAGS)).encode()).hexdigest()[:24]
    folder = cache_dir("probe", key)
    target = folder / f"probe-{abi}"
    if target.is_file():
        return target
    try:
        with FileLock(folder / f"{abi}.lock", timeout=BUILD_TIMEOUT_S):
            if not target.is_file():
                if progress is not None:
                    progress(f"building the probe for {abi} (first time: about 30 s)…")
                _build(abi, source, target)
    except Timeout as error:
        raise HostError(
            f"another process has been building the probe for {abi} for {BUILD_TIMEOUT_S:g} s",
            remedy=f"end it and delete {folder}",
        ) from error
    return target


def compile_command(abi: str, source: str, output: Path) -> list[str]:
    """Return the compiler's command line; ``source`` is the hash that the program shall tell."""
    files = [str(path) for path in sorted(source_dir().glob("*.c"))]
    defines = [f'-DPROBE_SOURCE="{source}"']
    zig = [sys.executable, "-m", "ziglang", "cc", "-target", ZIG_TARGETS[abi]]
    return [*zig, *FLAGS, *defines, *files, "-o", str(output)]


def compile_environment() -> dict[str, str]:
    """Return the environment for zig: its own caches lie inside ours."""
    zig_cache = str(cache_dir("zig"))
    return {**os.environ, "ZIG_GLOBAL_CACHE_DIR": zig_cache, "ZIG_LOCAL_CACHE_DIR": zig_cache}


def _build(abi: str, source: str, target: Path) -> None:
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        _compile(abi, compile_command(abi, source, temporary))
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _compile(abi: str, command: list[str]) -> None:
    try:
        done = subprocess.run(
            command, env=compile_environment(), capture_output=True, timeout=BUILD_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise HostError(f"compiling the probe for {abi} was not done after {BUILD_TIMEOUT_S:g} s") from error
    if done.returncode != 0:
        raise HostError(f"compiling the probe for {abi} failed ({_first_error(done.stderr)})")


def _first_error(stderr: bytes) -> str:
    lines = [line.strip() for line in stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    return next((line for line in lines if "error" in line.lower()), lines[0] if lines else "it said nothing")


def _zig_version() -> str:
    try:
        return importlib.metadata.version("ziglang")
    except importlib.metadata.PackageNotFoundError as error:
        raise HostError("the compiler for the probe is missing", remedy="pip install ziglang") from error
