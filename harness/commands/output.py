"""How verbs answer: text or one JSON document on stdout, progress on stderr."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Adb = Annotated[
    str | None,
    typer.Option("--adb", metavar="HOST:PORT[,…]", help="adb servers (default: this computer's own)."),
]


def say(text: str) -> None:
    """Print a line of the answer."""
    typer.echo(text)


def tell(text: str) -> None:
    """Progress, on stderr, so that stdout stays for the answer."""
    typer.echo(text, err=True)


def print_json(value: Any) -> None:
    """Print the answer as JSON."""
    typer.echo(json.dumps(value, indent=1))
