"""What all our pages share: how a template is filled in, and where its files lie."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from harness.report.text import listing, number, plural, visible

_TEMPLATES: Final = Path(__file__).with_name("templates")


def page_environment() -> Environment:
    """Return the environment in which every text is made visible, then escaped, and a name that is unknown fails."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(plural=plural, listing=listing, number=number)
    return environment


def asset(name: str) -> str:
    """Return a file of ours that is inlined into a page."""
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def _finalize(value: Any) -> Any:
    """Make every text that the template prints visible before it is escaped; markup of our own passes."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value
