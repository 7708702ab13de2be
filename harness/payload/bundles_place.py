"""The bundles that mnn-farm keeps in the user's cache, each under the name it was imported with."""

from __future__ import annotations

import logging
from pathlib import Path

from harness.core.errors import ConfigError
from harness.payload.bundle import MANIFEST, Bundle, read_bundle
from harness.payload.places import Place

_LOG = logging.getLogger(__name__)

BUNDLES = Place("bundle", "bundles", MANIFEST)


def imported_bundles() -> list[Bundle]:
    """Return the bundles that were imported, the newest first; every file is hashed and held against its pin.

    One that is broken is left out and told in the log: nobody asked for it by name.
    """
    folders = [BUNDLES.place_of(name) for name in BUNDLES.kept()]
    found = []
    for folder in sorted(folders, key=lambda folder: (-(folder / MANIFEST).stat().st_mtime, folder.name)):
        try:
            found.append(read_bundle(folder))
        except ConfigError as error:
            _LOG.warning("bundle %s is left out: %s", folder.name, error)
    return found


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
