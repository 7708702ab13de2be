"""``dumpsys SurfaceFlinger`` and ``dumpsys gpu``. Nothing here has a GPU, so no process holds memory of one."""

from __future__ import annotations

from .store import Store

_RE_SDK = 29


def surface_flinger(store: Store) -> list[str]:
    """Return the lines that tell the GPU; a header line before it holds the word GLES as well."""
    gpu = store.spec["gpu"]
    head = [" ------------RE GLES------------"] if store.sdk >= _RE_SDK else []
    return [*head, f"GLES: {gpu['vendor']}, {gpu['renderer']}, {gpu['version']}"]


def memory(store: Store) -> list[str]:
    """Return the lines of ``dumpsys gpu``; the snapshot exists from Android 12 and not on every kernel."""
    lines = ["Stable Game Driver: unsupported", "Pre-release Game Driver: unsupported"]
    if store.spec["gpu"]["snapshot"]:
        lines += ["", "Memory snapshot for GPU 0:", "Global total: 48234496", "Proc 812 total: 41943040"]
    lines += ["", "driverPackageName = system", "driverVersionName = ", "driverVersionCode = 0", "vkLoadingCount = 0"]
    return lines
