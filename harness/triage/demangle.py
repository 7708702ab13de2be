"""From a mangled name of C++ to the name that people write, as debuggerd shows it."""

from __future__ import annotations

# Longer ones are of templates upon templates, which nobody reads.
_LONGEST = 4000
_SHOWN = 300


def plain(name: str) -> str:
    """Return a mangled name as people write it, others as they are, and all where there is no C++ runtime."""
    if not name.startswith("_Z") or len(name) > _LONGEST:
        return name
    import cxxfilt  # when it is needed: it looks for the C++ runtime by running a program

    try:
        shown: str = cxxfilt.demangle(name)
    except (cxxfilt.Error, UnicodeError):
        return name
    return shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 1]}…"
