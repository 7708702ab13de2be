"""The compiler of our C programs: a folder of C source to one static program per ABI, once, in the user's cache."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import os
import secrets
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from harness.core.errors import ConfigError, HostError
from harness.core.resources import cache_dir

# Android ABI → zig target. Static musl programs run on Android's kernel; no NDK is needed. For 32 bit the floating
# point convention of Android's libraries does not matter to a program that uses none of them.
ZIG_TARGETS = {
    "arm64-v8a": "aarch64-linux-musl",
    "armeabi-v7a": "arm-linux-musleabihf",
    "x86_64": "x86_64-linux-musl",
}

# Warnings are for the tests: a newer compiler that warns of more must not stop anybody's run.
FLAGS = ("-std=c11", "-O2", "-static", "-s", "-D_GNU_SOURCE")

BUILD_TIMEOUT_S = 300.0


@dataclass(frozen=True)
class CProgram:
    """A program of ours in C.

    Attributes:
        name: what it is called, in the cache and in messages.
        source_dir: the folder of its ``*.c`` and ``*.h``.
        define: the macro that carries the hash of its source, so that the program can tell what it was made from.
        shared: further folders of source, which other programs are made of as well.
    """

    name: str
    source_dir: Path
    define: str
    shared: tuple[Path, ...] = ()

    def folders(self) -> tuple[Path, ...]:
        """Return all folders of source."""
        return (self.source_dir, *self.shared)

    def source_hash(self) -> str:
        """Return the SHA-256 of names and contents of the source.

        Raises:
            HostError: the source is not there.
        """
        digest = hashlib.sha256()
        for number, folder in enumerate(self.folders()):
            files = sorted((*folder.glob("*.c"), *folder.glob("*.h")), key=lambda path: path.name)
            if not files:
                raise HostError(f"the source of {self.name} is missing in {folder}", remedy="install mnn-farm again")
            for path in files:
                content = path.read_bytes()
                digest.update(f"{number}/{path.name}\0{len(content)}\0".encode())
                digest.update(content)
        return digest.hexdigest()

    def build_key(self) -> str:
        """Return the hash of all that decides the programs' bytes: source, compiler, options; 24 hex digits."""
        parts = (self.source_hash(), zig_version(), self.define, *FLAGS, *sorted(ZIG_TARGETS.values()))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def build(program: CProgram, abi: str, *, progress: Callable[[str], None] | None = None) -> Path:
    """Return the program for an Android ABI, built now if this source was never built here.

    Two processes that ask at once build it once. The file lies alone in its folder and is called as the program.

    Args:
        program: what to build.
        abi: a key of :data:`ZIG_TARGETS`.
        progress: gets one line before a build begins.

    Raises:
        ConfigError: there is no such program for this ABI.
        HostError: the compiler is missing or failed, or another process builds without end.
    """
    if abi not in ZIG_TARGETS:
        raise ConfigError(
            f"no {program.name} for the ABI {abi!r}", remedy=f"known are {', '.join(sorted(ZIG_TARGETS))}"
        )
    folder = cache_dir(program.name, program.build_key())
    target = folder / abi / program.name
    if target.is_file():
        return target
    try:
        with FileLock(folder / f"{abi}.lock", timeout=BUILD_TIMEOUT_S):
            if not target.is_file():
                if progress is not None:
                    progress(f"building the {program.name} for {abi} (first time: about 30 s)…")
                _build(program, abi, target)
    except Timeout as error:
        raise HostError(
            f"another process has been building the {program.name} for {abi} for {BUILD_TIMEOUT_S:g} s",
            remedy=f"end it and delete {folder}",
        ) from error
    return target


def compile_command(program: CProgram, abi: str, output: Path) -> list[str]:
    """Return the compiler's command line."""
    files = [str(path) for folder in program.folders() for path in sorted(folder.glob("*.c"))]
    includes = [word for folder in program.shared for word in ("-iquote", str(folder))]
    defines = [f'-D{program.define}="{program.source_hash()}"']
    zig = [sys.executable, "-m", "ziglang", "cc", "-target", ZIG_TARGETS[abi]]
    return [*zig, *FLAGS, *defines, *includes, *files, "-o", str(output)]


def compile_environment() -> dict[str, str]:
    """Return the environment for zig: its own caches lie inside ours."""
    zig_cache = str(cache_dir("zig"))
    return {**os.environ, "ZIG_GLOBAL_CACHE_DIR": zig_cache, "ZIG_LOCAL_CACHE_DIR": zig_cache}


@functools.cache
def zig_version() -> str:
    """Return the compiler's version.

    Raises:
        HostError: it is not installed.
    """
    try:
        return importlib.metadata.version("ziglang")
    except importlib.metadata.PackageNotFoundError as error:
        raise HostError("the compiler for device programs is missing", remedy="pip install ziglang") from error


def _build(program: CProgram, abi: str, target: Path) -> None:
    target.parent.mkdir(exist_ok=True)
    temporary = target.parent.parent / f".{abi}.{secrets.token_hex(4)}"
    try:
        _compile(program.name, abi, compile_command(program, abi, temporary))
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _compile(name: str, abi: str, command: list[str]) -> None:
    try:
        done = subprocess.run(
            command, env=compile_environment(), capture_output=True, timeout=BUILD_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise HostError(f"compiling the {name} for {abi} was not done after {BUILD_TIMEOUT_S:g} s") from error
    if done.returncode != 0:
        raise HostError(f"compiling the {name} for {abi} failed ({_first_error(done.stderr)})")


def _first_error(stderr: bytes) -> str:
    lines = [line.strip() for line in stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    return next((line for line in lines if "error" in line.lower()), lines[0] if lines else "it said nothing")
