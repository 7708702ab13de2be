"""``mnn-farm triage``: what logs show, whose fault it is and what to do; no phone needed."""

from __future__ import annotations

import io
import lzma
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from harness.commands.output import Json, print_json, say, tell
from harness.commands.triage_judge import judged_entries
from harness.core.errors import ConfigError
from harness.triage.entry import printable
from harness.triage.finding import Finding, worst
from harness.triage.parcel import MANIFEST, Contents, contents_of
from harness.triage.readers.crash import Frame
from harness.triage.redact import redacted
from harness.triage.scan import blocks
from harness.triage.symbols import Symbols
from harness.triage.triage import Source, triage

_NAME = "stdin"
# In a bugreport or a crash bundle; what else is in there is no text of a failure.
_TEXTS = (".txt", ".log", ".jsonl", ".stderr", ".stdout")
_MOST_MEMBERS = 200
# What names phones stands at the begin, and more takes time.
_BLOCKS_LEARNED = 8
_MOST_MANIFEST_BYTES = 4 << 20
# A broken or an encrypted member, a name that is no text, or a compression that Python does not know.
_BROKEN_ZIP = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, UnicodeDecodeError, RuntimeError, NotImplementedError,
)  # fmt: skip


def triage_files(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE…", help="Logs, tombstones, outputs, zips; - reads stdin.")
    ],
    as_json: Json = False,
    symbols: Annotated[
        Path | None,
        typer.Option("--symbols", exists=True, file_okay=False, help="Folder with the build's unstripped files."),
    ] = None,
    redact: Annotated[
        bool, typer.Option("--redact", help="Mask serials, accounts, names, addresses, numbers and secrets.")
    ] = False,
) -> None:
    """Say what logs show: what broke, whose fault it is, the lines that prove it, and what to do. No phone needed.

    All files are read as one case. Exit status 0: nothing of severity error; 1: an error was found.
    """
    try:
        sources = [source for name in files for source in _sources(name)]
        unstripped = Symbols(symbols) if symbols is not None else None
        findings = triage(sources, None, (judged_entries,), _namer(files, unstripped))
    except OSError as error:
        name = error.filename or "an input"
        raise ConfigError(f"{name} cannot be read ({error.strerror or error})", remedy="check it") from None
    except _BROKEN_ZIP as error:
        raise ConfigError(f"a file in the zip cannot be read ({error})", remedy="unpack it, name its files") from None
    for library, build_id in unstripped.others.items() if unstripped is not None else ():
        tell(f"{library} in {symbols} is of another build than the log's (BuildId {build_id}): it names nothing")
    if redact:
        findings = redacted(findings, _begins(sources))
    if as_json:
        print_json({"findings": [finding.as_json() for finding in findings]})
    else:
        _print(findings)
    raise typer.Exit(1 if worst(findings) == "error" else 0)


def _sources(name: str) -> Iterator[Source]:
    if name == "-":
        yield Source(_NAME, _Stdin)
        return
    path = Path(name)
    if not path.exists() or path.is_dir():
        raise ConfigError(f"{name} is no file", remedy="name a file, or - for stdin")
    if path.is_file() and zipfile.is_zipfile(path):
        yield from _members(path)
    else:
        yield Source.of_file(path)


class _Stdin(AbstractContextManager[BinaryIO]):
    """Standard input, which is not ours to close."""

    def __enter__(self) -> BinaryIO:
        return sys.stdin.buffer

    def __exit__(self, *_: object) -> None:
        return None


def _members(path: Path) -> Iterator[Source]:
    """Yield the texts of a zip: a bugreport, a folder of logs; of a crash bundle what its manifest calls evidence."""
    bundle = _bundle(path)
    with zipfile.ZipFile(path) as archive:
        names = [
            info.filename
            for info in archive.infolist()
            if not info.is_dir() and (info.filename.endswith(_TEXTS) or "tombstone" in info.filename)
        ]
        if bundle is not None:
            there = set(archive.namelist())
            names = [name for name in bundle.evidence if name in there]
    for name in names[:_MOST_MEMBERS]:
        yield Source(f"{path.name}!{printable(name)}", lambda name=name: io.BufferedReader(_open(path, name)))  # type: ignore[misc]


def _bundle(path: Path) -> Contents | None:
    """Return what the manifest of a crash bundle says, ``None`` for any other zip."""
    with zipfile.ZipFile(path) as archive:
        if MANIFEST not in archive.namelist() or archive.getinfo(MANIFEST).file_size > _MOST_MANIFEST_BYTES:
            return None
        return contents_of(archive.read(MANIFEST))


def _namer(files: Sequence[str], unstripped: Symbols | None) -> Callable[[Frame], str | None] | None:
    """Return what names frames: the unstripped files, else as they were named when a crash bundle was collected."""
    paths = [Path(name) for name in files if name != "-"]
    bundles = [bundle for path in paths if zipfile.is_zipfile(path) and (bundle := _bundle(path)) is not None]
    functions = {frame: function for bundle in bundles for frame, function in bundle.functions.items()}
    then = Contents((), functions).name
    if unstripped is not None:
        return lambda frame: unstripped.name(frame) or then(frame)
    return then if functions else None


def _open(path: Path, name: str) -> io.RawIOBase:
    archive = zipfile.ZipFile(path)
    return archive.open(name)  # type: ignore[return-value]


def _begins(sources: Sequence[Source]) -> Iterator[str]:
    """Yield what files begin with, where serials are told; standard input was read already."""
    for source in sources:
        if source.name != _NAME:
            with source.open() as stream:
                yield from (block.decode("utf-8", "replace") for block in islice(blocks(stream), _BLOCKS_LEARNED))


def _print(findings: tuple[Finding, ...]) -> None:
    if not findings:
        say("Nothing is known of this: no finding.")
    for number, finding in enumerate(findings, 1):
        say(f"{number}. {finding.severity}: {finding.title}")
        say(f"   fault:  {finding.fault.value} ({finding.code})")
        say(f"   why:    {finding.cause}")
        for one in finding.evidence:
            say(f"   seen:   {one.source}:{one.line}: {one.text}")
        for step, advice in enumerate(finding.advice, 1):
            say(f"   do {step}:   {advice}")
