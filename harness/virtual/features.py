"""What adbd offers, by the phone's Android version.

Source: the names are those of ``supported_features()`` in AOSP ``adb/transport.cpp``; the version that brought each is
from banners that phones of that version sent (Android 8 and 9: ``cmd,stat_v2,shell_v2``) and, where none was found,
from memory of that file's history (Android 7, 10, 11, 12). A phone offers here only what its adbd serves, so
compression, ``abb``, ``apex`` and ``remount_shell`` are in no row.
"""

from __future__ import annotations

from harness.virtual.profile import Profile

_BROUGHT: tuple[tuple[int, tuple[str, ...]], ...] = (
    (24, ("shell_v2", "cmd")),
    (26, ("stat_v2",)),
    (29, ("fixed_push_mkdir",)),
    (30, ("ls_v2", "sendrecv_v2")),
    (31, ("sendrecv_v2_dry_run_send",)),
)
"""SDK level and what is new in it. Android 6 (23) and older have none: no exit code, one merged output."""
LAST_SDK_WITH_TERMINALS = 23
"""Up to here ``shell:COMMAND`` runs on a terminal, so its lines end in CR LF."""


def features(sdk: int) -> tuple[str, ...]:
    """Return the features of a phone with this SDK level."""
    return tuple(name for since, names in _BROUGHT if sdk >= since for name in names)


def terminal_always(sdk: int) -> bool:
    """Whether each shell gets a terminal, as before Android 7."""
    return sdk <= LAST_SDK_WITH_TERMINALS


def banner(profile: Profile) -> str:
    """Return what adbd says of the phone when a server connects; an old one has no list of features at all."""
    build = profile.build
    said = f"device::ro.product.name={build.product};ro.product.model={build.model};ro.product.device={build.device};"
    offered = ",".join(features(build.sdk))
    return f"{said}features={offered}" if offered else said
