"""A phone's services without the phone: their tables in a folder, as the outside writes them."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.virtual import vitals
from harness.virtual.droid.store import Store
from harness.virtual.mailbox import NOW, SPEC, asked_folder, now_folder
from harness.virtual.profile import Profile, load_profile
from harness.virtual.spec import encode_spec


class DroidPhone:
    """Makes stores of one phone; what one asks for, the next one sees."""

    def __init__(self, folder: Path, profile: Profile | str, **changes: Any) -> None:
        self.profile = load_profile(profile) if isinstance(profile, str) else profile
        self.folder = folder
        now_folder(folder).mkdir()
        asked_folder(folder).mkdir()
        (now_folder(folder) / SPEC).write_bytes(encode_spec(self.profile))
        state = dataclasses.replace(vitals.idle(self.profile), **changes)
        self.publish(vitals.service_state(self.profile, state, 0))

    def publish(self, state: dict[str, Any]) -> None:
        (now_folder(self.folder) / NOW).write_text(json.dumps(state))

    def store(self) -> Store:
        return Store(str(now_folder(self.folder)), str(asked_folder(self.folder)), str(self.folder / "settings.json"))


@pytest.fixture
def droid(tmp_path: Path) -> Callable[..., DroidPhone]:
    """Makes phones: ``droid("high", chip_rise_c=20.0)``."""
    count = itertools.count()

    def make(profile: Profile | str, **changes: Any) -> DroidPhone:
        folder = tmp_path / f"phone{next(count)}"
        folder.mkdir()
        return DroidPhone(folder, profile, **changes)

    return make
