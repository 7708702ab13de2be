"""Reads what an app brings in native code: the libraries of an APK or of an Android App Bundle, and its manifest."""

from __future__ import annotations

import re
import struct
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from harness.payload.android_manifest import AndroidManifest, read_manifest
from harness.payload.archive_entries import BROKEN, broken
from harness.payload.archives import open_zip, unpack_zip
from harness.payload.axml import MAX_BYTES, parse_axml
from harness.payload.bundle_files import ABIS, found
from harness.payload.bundle_loading import BIG_PAGE_ABIS
from harness.payload.bundle_traits import PROGRAM_FILES
from harness.payload.model_problem import Problem
from harness.payload.proto_xml import parse_proto_xml
from harness.payload.protobuf import fields

_MANIFESTS = {"apk": "AndroidManifest.xml", "aab": "base/manifest/AndroidManifest.xml"}
_CONFIG = "BundleConfig.pb"
_BINARY_XML = b"\x03\x00"
_ABI = "|".join(ABIS)
_LIBRARY = re.compile(r"(?:(?P<module>[^/]+)/)?lib/(?P<abi>[^/]+)/(?P<name>[^/]+\.so)")
#: A program that an app unpacks by itself.
_ASSET = re.compile(
    rf"(?:[^/]+/)?assets/(?:.*/)?(?P<abi>{_ABI})/(?:.*/)?(?P<name>{'|'.join(map(re.escape, PROGRAM_FILES))})"
)


@dataclass(frozen=True)
class AppFile:
    """A library (or a program) of an app. ``begins_at``: where its bytes begin, ``None`` where it is compressed."""

    entry: str
    abi: str
    name: str
    begins_at: int | None


@dataclass(frozen=True)
class App:
    """An APK or an AAB.

    Attributes:
        path: the file.
        kind: which of them.
        manifest: what it says.
        files: its native code, each name once for each ABI.
        strange: folders below ``lib`` that are no ABI of Android.
        page_bytes: for an AAB, at multiples of what libraries will begin in the APKs; ``None``: not said.
        problem: what is wrong with the manifest, if anything.
    """

    path: Path
    kind: Literal["apk", "aab"]
    manifest: AndroidManifest
    files: tuple[AppFile, ...]
    strange: tuple[str, ...] = ()
    page_bytes: int | None = None
    problem: Problem | None = None

    def libraries(self) -> dict[str, list[str]]:
        """Return the names of the libraries for each ABI."""
        found: dict[str, list[str]] = {}
        for file in sorted(self.files, key=lambda file: (ABIS.index(file.abi), file.name)):
            found.setdefault(file.abi, []).append(file.name)
        return found

    def facts(self) -> dict[str, Any]:
        """Return what is known of it, as ``mnn-farm bins inspect --json`` prints it."""
        return {
            "kind": self.kind,
            "package": self.manifest.package,
            "min_sdk": self.manifest.min_sdk,
            "target_sdk": self.manifest.target_sdk,
            "extract_native_libs": self.manifest.extract_native_libs,
            "uses_native_libraries": [
                {"name": name, "required": required} for name, required in self.manifest.native_libraries
            ],
            "abis": list(self.libraries()),
            "libraries": self.libraries(),
            "zip_align_bytes": self.zip_align_bytes(),
        }

    def zip_align_bytes(self) -> int | None:
        """Return the largest page (up to 64 KB) at multiples of which all uncompressed 64-bit libraries begin."""
        if self.kind == "aab":
            return self.page_bytes
        begins = [f.begins_at for f in self.files if f.begins_at is not None and f.abi in BIG_PAGE_ABIS]
        return min((min(at & -at or 65536, 65536) for at in begins), default=None)


def app_kind(archive: zipfile.ZipFile) -> Literal["apk", "aab"] | None:
    """Return whether a zip is an APK or an AAB. An AAR, which has a manifest in plain text, is neither."""
    names = set(archive.namelist())
    if _CONFIG in names or _MANIFESTS["aab"] in names:
        return "aab"
    if _MANIFESTS["apk"] not in names:
        return None
    try:
        with archive.open(_MANIFESTS["apk"]) as file:
            return "apk" if file.read(2) == _BINARY_XML or "classes.dex" in names else None
    except (*BROKEN, OSError):
        return "apk"


def read_app(path: Path) -> App | None:
    """Read what an app says of itself and where its libraries lie; ``None`` for a zip that is no app.

    Raises:
        BundleError: it is no zip, or a library's entry is broken (``archive_broken``).
        ConfigError: the file cannot be read.
    """
    with open_zip(path) as archive:
        kind = app_kind(archive)
        if kind is None:
            return None
        manifest, problem = _manifest(path, archive, kind)
        files: dict[tuple[str, str], AppFile] = {}
        strange: set[str] = set()
        for info in archive.infolist():
            found = _LIBRARY.fullmatch(info.filename) or _ASSET.fullmatch(info.filename)
            if found is None or (kind == "apk" and found.groupdict().get("module")):
                continue
            if found["abi"] not in ABIS:
                strange.add(found["abi"])
                continue
            begins = _begins_at(path, archive, info) if info.compress_type == zipfile.ZIP_STORED else None
            file = AppFile(info.filename, found["abi"], found["name"], begins)
            files.setdefault((file.abi, file.name), file)
        page_bytes = _bundle_page_bytes(archive) if kind == "aab" else None
        return App(path, kind, manifest, tuple(files.values()), tuple(sorted(strange)), page_bytes, problem)


def unpack_app(app: App, target: Path) -> None:
    """Unpack an app's native code into a folder for each ABI.

    Raises:
        BundleError, ConfigError, HostError: as :func:`~harness.payload.archives.unpack`.
    """
    places = {file.entry: f"{file.abi}/{file.name}" for file in app.files}
    with open_zip(app.path) as archive:
        unpack_zip(app.path, archive, target, places.get)


def _manifest(
    path: Path, archive: zipfile.ZipFile, kind: Literal["apk", "aab"]
) -> tuple[AndroidManifest, Problem | None]:
    entry, parse = _MANIFESTS[kind], parse_axml if kind == "apk" else parse_proto_xml
    try:
        with archive.open(entry) as file:
            return read_manifest(parse(file.read(MAX_BYTES + 1))), None
    except KeyError:
        said = "is not in it"
    except (*BROKEN, OSError) as error:
        said = f"cannot be read ({ascii(str(error))[1:-1][:200]})"
    return AndroidManifest(), found("manifest_unreadable", f"{path}: {entry} {said}", "build the app again")


def _begins_at(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> int:
    """Return where an entry's bytes begin: behind its local header, whose extra field is not the directory's."""
    file = archive.fp
    try:
        if file is None:
            raise ValueError("it is closed")
        file.seek(info.header_offset)
        signature, name, extra = struct.unpack("<4s22xHH", file.read(30))
    except (*BROKEN, OSError) as error:
        raise broken(path, error, info.filename) from error
    if signature != b"PK\x03\x04":
        raise broken(path, ValueError("no entry begins where the directory says"), info.filename)
    return int(info.header_offset + 30 + name + extra)


def _bundle_page_bytes(archive: zipfile.ZipFile) -> int | None:
    """Return how an AAB wants uncompressed libraries aligned (bundletool's ``config.proto``); ``None``: it is not said.

    The field is ``optimizations`` (2) . ``uncompress_native_libraries`` (2) . ``alignment`` (2): 1 is 4 KB, 2 is 16,
    3 is 64. Where it is missing, that depends on bundletool's version.
    """
    try:
        with archive.open(_CONFIG) as file:
            message: int | bytes | None = file.read(MAX_BYTES)
        for number in (2, 2, 2):
            message = dict(fields(message)).get(number) if isinstance(message, bytes) else None
    except (*BROKEN, KeyError, OSError):
        return None
    return {1: 4096, 2: 16384, 3: 65536}.get(message) if isinstance(message, int) else None
