"""Takes a model folder over: checked, copied among the models that mnn-farm keeps, and pinned."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness.core.errors import ConfigError, HostError
from harness.payload.folder import copy_folder, read_folder
from harness.payload.model_pins import pin_file, write_pin
from harness.payload.models import read_any_model, read_unpinned
from harness.payload.models_fetch import known_models
from harness.payload.models_place import check_name, keep, kept_models, place_of, scratch_of


def import_model(source: Path, name: str, *, replace: bool, say: Callable[[str], None]) -> Path:
    """Copy a model folder to the models that are known by name, pin it, and return where it lies.

    It is copied, not linked: whoever exports into ``source`` again writes into the same files.

    Args:
        source: the folder.
        name: what it will be called.
        replace: whether one of that name that is here already goes.
        say: is told what happens.

    Raises:
        ConfigError: the folder is refused, or the name is taken.
        HostError: it cannot be copied.
    """
    check_name(name)
    if name in known_models():
        raise ConfigError(f"{name} is the name of a model of mnn-farm's own", remedy="give another one with --name")
    place = place_of(name)
    if place.resolve() == source.resolve():
        raise ConfigError(f"{source} lies where it would be copied to", remedy="pin it with --in-place")
    say(f"checking {source}")
    model = read_any_model(source)
    whole = model.folder if model.tensor is None else read_folder(source)
    if name in kept_models() and not replace:
        raise ConfigError(f"there is a model {name} already", remedy="give another name with --name, or --replace it")
    with scratch_of(name, "importing", say) as scratch:
        say(f"copying {whole.size / 1e6:.1f} MB")
        made = scratch / name
        copy_folder(whole, made)
        copied = read_folder(made)
        if copied.hash != whole.hash:
            raise HostError(f"the copy of {source} differs from it", remedy="try again; if it stays, check the disk")
        return keep(copied, name, scratch, str(source.resolve()), model.engine_version)


def pin_in_place(folder: Path) -> Path:
    """Pin a folder where it lies, as it is now, and return where the pin is.

    Raises:
        ConfigError: the folder is refused.
        HostError: the pin cannot be written.
    """
    model = read_unpinned(folder)
    write_pin(folder, model.folder, str(folder.resolve()), model.engine_version)
    return pin_file(folder)
