"""The bundles that mnn-farm keeps in the user's cache, each under the name it was imported with."""

from __future__ import annotations

from pathlib import Path

from harness.core.errors import ConfigError
from harness.payload.bundle import MANIFEST, Bundle, read_bundle
from harness.payload.places import Place

BUNDLES = Place("bundle", "bundles", MANIFEST)


def imported_bundles() -> list[Bundle]:
    """Return the bundles that were imported, the newest first; every file is hashed and held against its pin.

    Raises:
        ConfigError: one of them is broken; reason ``payload_corrupt`` where a file is not what was imported.
    """
    folders = [BUNDLES.place_of(name) for name in BUNDLES.kept()]
    newest_first = sorted(folders, key=lambda folder: (-(folder / MANIFEST).stat().st_mtime, folder.name))
    return [read_bundle(folder) for folder in newest_first]


def find_bundle(name_or_dir: str) -> Path:
    """Return the folder of a bundle given by the name it was imported with, or by path.

    Raises:
        ConfigError: there is none of that name.
    """
    if "/" not in name_or_dir and not Path(name_or_dir).is_dir():
        if name_or_dir in BUNDLES.kept():
            return BUNDLES.place_of(name_or_dir)
        known = ", ".join(BUNDLES.kept())
        raise ConfigError(
            f"there is no bundle called {name_or_dir}",
            remedy=f"name a folder with {MANIFEST} in it" + (f", or one of: {known}" if known else ""),
        )
    path = Path(name_or_dir).expanduser()
    return path.parent if path.name == MANIFEST else path
