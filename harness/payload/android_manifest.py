"""What an app's manifest says of its native libraries."""

from __future__ import annotations

from dataclasses import dataclass

from harness.payload.axml import Value, XmlElement


@dataclass(frozen=True)
class AndroidManifest:
    """The part of a manifest that counts here.

    Attributes:
        package: the app's name, ``None`` where the manifest has none.
        min_sdk: API level that it needs at least; ``None`` where it does not say, or names a preview.
        target_sdk: API level whose rules it keeps; Android takes ``min_sdk`` where it is missing.
        extract_native_libs: whether Android unpacks the libraries when it installs the app; ``None``: not said.
        native_libraries: libraries of the phone that it may load, by name, and whether it needs them.
    """

    package: str | None = None
    min_sdk: int | None = None
    target_sdk: int | None = None
    extract_native_libs: bool | None = None
    native_libraries: tuple[tuple[str, bool], ...] = ()


def read_manifest(root: XmlElement) -> AndroidManifest:
    """Read a manifest's tree.

    Raises:
        ValueError: it is XML, but no manifest.
    """
    if root.name != "manifest":
        raise ValueError(f"its root is {root.name[:80]!r} instead of 'manifest'")
    package = root.attributes.get("package")
    min_sdk = target_sdk = extract = None
    for element in root.all("uses-sdk"):
        min_sdk = _number(element.attributes.get("android:minSdkVersion"))
        target_sdk = _number(element.attributes.get("android:targetSdkVersion"))
    libraries: dict[str, bool] = {}
    for application in root.all("application"):
        extract = _truth(application.attributes.get("android:extractNativeLibs"))
        for element in application.all("uses-native-library"):
            name = element.attributes.get("android:name")
            if isinstance(name, str):
                libraries[name] = _truth(element.attributes.get("android:required")) is not False
    return AndroidManifest(
        package=package if isinstance(package, str) else None,
        min_sdk=min_sdk,
        target_sdk=target_sdk if target_sdk is not None else min_sdk,
        extract_native_libs=extract,
        native_libraries=tuple(sorted(libraries.items())),
    )


def _number(value: Value) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:9])
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _truth(value: Value) -> bool | None:
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.lower())
    return bool(value) if value is not None else None
