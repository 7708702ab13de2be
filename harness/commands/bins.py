"""``mnn-farm bins``: inspect, import, list and build device binaries."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.commands.output import Json, print_json, say, tell
from harness.core.errors import ConfigError
from harness.payload.archives import unpack
from harness.payload.bundle import read_manifest
from harness.payload.bundle_inspect import BundleVariant
from harness.payload.bundle_source import Inspected, inspect_source
from harness.payload.bundles_import import check_free, default_name, import_bundle
from harness.payload.bundles_place import BUNDLES, find_bundle
from harness.payload.model_problem import Problem
from harness.payload.sdk_build import build_runner

app = typer.Typer(no_args_is_help=True, help="Device binaries: inspect, import, list, build.")

PageSize = Annotated[
    int | None,
    typer.Option(
        "--page-size",
        min=4096,
        metavar="BYTES",
        help="Memory page of the phones it is wanted for: what cannot be loaded with it is an error.",
    ),
]
Name = Annotated[str | None, typer.Option("--name", help="What to call it (default: as the folder or the archive).")]
Replace = Annotated[bool, typer.Option("--replace", help="Let it take the place of one of that name.")]


@app.command("inspect", epilog="Example: mnn-farm bins inspect ~/MNN/build_64 --page-size 16384")
def bins_inspect(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A folder, zip, tar, APK or AAB, or an imported bundle.")],
    page_size: PageSize = None,
    as_json: Json = False,
) -> None:
    """Say what binaries are, for which phones, and what is wrong with them; exit status 1: they cannot be used."""
    with tempfile.TemporaryDirectory(prefix="mnn-farm-bins-") as scratch:
        inspected = inspect_source(_source(path), Path(scratch), page_bytes=page_size)
    if as_json:
        problems = [_problem(problem) for problem in inspected.problems]
        print_json({"ok": inspected.ok, "problems": problems, "facts": inspected.facts})
    else:
        for line in lines(inspected):
            say(line)
    raise typer.Exit(0 if inspected.ok else 1)


@app.command("import", epilog="Example: mnn-farm bins import ~/MNN/build_64 --name mnn-3.6.1")
def bins_import(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A folder, zip or tar of an MNN build.")],
    name: Name = None,
    replace: Replace = False,
    page_size: PageSize = None,
    cpu_feature: Annotated[
        list[str] | None,
        typer.Option(
            "--cpu-feature",
            metavar="NAME",
            help="It needs this of a phone's CPU (asimddp, i8mm, …) and goes to no phone without; again for more.",
        ),
    ] = None,
) -> None:
    """Inspect a build of MNN, copy what counts of it among the bundles known by name, and pin each file."""
    bundle = import_bundle(
        path,
        name or default_name(path),
        replace=replace,
        say=tell,
        page_bytes=page_size,
        cpu_features=cpu_feature or (),
    )
    say(str(bundle.folder.root))


@app.command("list", epilog="Example: mnn-farm bins list")
def bins_list(as_json: Json = False) -> None:
    """List the bundles that were imported: what they hold, for which phones, and where they lie."""
    rows = [_row(name) for name in BUNDLES.kept()]
    if as_json:
        print_json({"bundles": rows})
        return
    for row in rows:
        if "problem" in row:
            say(f"{row['name']}  {row['path']}  {row['problem']}")
            continue
        version = row["engine_version"] or "version unknown"
        say(
            f"{row['name']}  {row['engine']} {version}  {', '.join(row['runners'])}  {', '.join(row['abis'])}  "
            f"{', '.join(row['backends'])}  {row['path']}"
        )
    if not rows:
        tell("no bundle was imported yet: mnn-farm bins import PATH")


@app.command("build", epilog="Example: mnn-farm bins build --sdk mnn_3.6.1_android.zip --headers ~/MNN --ndk ~/ndk")
def bins_build(
    sdk: Annotated[
        Path,
        typer.Option("--sdk", metavar="PATH", help="MNN's libraries and headers: a release, folder or archive."),
    ],
    ndk: Annotated[
        Path | None, typer.Option("--ndk", metavar="DIR", help="Android's NDK (default: what ANDROID_NDK_HOME names).")
    ] = None,
    headers: Annotated[
        Path | None, typer.Option("--headers", metavar="DIR", help="MNN's source, where the release lacks headers.")
    ] = None,
    name: Name = None,
    replace: Replace = False,
) -> None:
    """Build our runner against an MNN SDK for each of its ABIs, and import it with the SDK's libraries."""
    called = name or default_name(sdk)
    check_free(called, replace=replace)
    with tempfile.TemporaryDirectory(prefix="mnn-farm-build-") as folder:
        unpacked, built = Path(folder) / "sdk", Path(folder) / "built"
        unpacked.mkdir()
        built.mkdir()
        if sdk.is_file():
            tell(f"unpacking {sdk}")
            unpack(sdk, unpacked)
        build_runner(unpacked if sdk.is_file() else sdk, ndk, built, tell, headers=headers)
        bundle = import_bundle(built, called, replace=replace, say=tell, made_from=sdk)
    say(str(bundle.folder.root))


def _problem(problem: Problem) -> dict[str, str]:
    """Return a finding as JSON: its code is the name of the check, the reason is what a run would end with."""
    return {
        "code": problem.check,
        "reason": problem.reason.code,
        "severity": problem.severity,
        "detail": problem.detail,
        "fix": problem.fix,
    }


def lines(inspected: Inspected) -> Iterator[str]:
    """Yield for people what was found: what is wrong first, then what it is."""
    for problem in inspected.problems:
        yield f"{problem.severity}: {problem.check}: {problem.detail} ({problem.fix})"
    shown_elsewhere = ("variants", "libraries", "left_out", "abis")
    for key, value in inspected.facts.items():
        if key not in shown_elsewhere:
            yield f"{key}: {_words(value)}"
    for variant in inspected.variants:
        yield f"{variant.abi}: {_of_variant(variant)}"


def _of_variant(variant: BundleVariant) -> str:
    parts = [
        ", ".join(file.name for file in variant.files),
        f"{variant.size_bytes / 1e6:.1f} MB",
        f"backends {', '.join(variant.backends) or 'unknown'}",
    ]
    if variant.min_sdk is not None:
        parts.append(f"API {variant.min_sdk} and up")
    if variant.page_bytes is not None:
        parts.append(f"memory pages up to {variant.page_bytes} bytes")
    if variant.cpu_features:
        parts.append(f"needs {', '.join(variant.cpu_features)}")
    return "; ".join(parts)


def _words(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_words(one) for one in value) or "none"
    if isinstance(value, dict):
        return " ".join(f"{key}={_words(one)}" for key, one in value.items())
    return "unknown" if value is None else str(value)


def _source(path: str) -> Path:
    """Return what was named: a path that exists, else an imported bundle, else the path, whose absence is told."""
    named = Path(path).expanduser()
    if not named.exists() and "/" not in path and path in BUNDLES.kept():
        return find_bundle(path)
    return named


def _row(name: str) -> dict[str, Any]:
    row: dict[str, Any] = {"name": name, "path": str(BUNDLES.place_of(name))}
    try:
        manifest = read_manifest(BUNDLES.place_of(name))
    except ConfigError as error:
        return {**row, "problem": str(error)}
    return {
        **row,
        "engine": manifest.engine,
        "engine_version": manifest.engine_version,
        "runners": list(manifest.runners),
        "runner": manifest.runner,
        "abis": list(dict.fromkeys(variant.abi for variant in manifest.variants)),
        "backends": list(manifest.backends),
        "source": manifest.source,
    }
