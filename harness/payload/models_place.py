"""The models that mnn-farm keeps in the user's cache."""

from __future__ import annotations

from pathlib import Path

from harness.payload.folder import PayloadFolder
from harness.payload.model_pins import SUFFIX, write_pin
from harness.payload.places import Place

MODELS = Place("model", "models", "config.json", reserved=(SUFFIX,))
#: Converted models lie among them, and are told by their record.
_CONVERTED = Place("model", "models", "convert.json")

place_of = MODELS.place_of
check_name = MODELS.check_name
scratch_of = MODELS.scratch_of


def kept_models() -> list[str]:
    """Return the names of those that are kept, of either kind, sorted."""
    return sorted({*MODELS.kept(), *_CONVERTED.kept()})


def keep(made: PayloadFolder, name: str, scratch: Path, source: str, engine_version: str | None) -> Path:
    """Pin a whole folder in ``scratch`` and move it to its place; one that is there goes.

    The pin comes first: whoever is stopped between the two leaves a model that is refused, not one that is trusted.
    """
    write_pin(place_of(name), made, source, engine_version)
    return MODELS.settle(made.root, name, scratch)
