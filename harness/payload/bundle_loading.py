"""Whether phones can load the files of a bundle: linker, alignment, relocations."""

from __future__ import annotations

from collections.abc import Iterator

from harness.payload.bundle_deps import Platform, is_android_linker, is_glibc_linker
from harness.payload.bundle_files import Scope, found
from harness.payload.elf import ElfFile
from harness.payload.model_problem import Problem

BIG_PAGE_BYTES = 16384
#: ABIs that run on phones whose memory pages have 16 KB: all with 64 bits.
BIG_PAGE_ABIS = ("arm64-v8a", "x86_64", "riscv64")
#: What bionic wants for the thread-local data of programs (``libc/bionic/bionic_elf_tls.cpp``), in bytes.
_TLS_BYTES = {"arm64-v8a": 64, "armeabi-v7a": 32}


def check_loading(scope: Scope, platform: Platform | None, page_bytes: int | None) -> Iterator[Problem]:
    """Yield what keeps the files of one ABI from being loaded; ``page_bytes`` are those of the phones in question."""
    if platform == "linux":
        said = f"{scope.path} ({scope.abi}) is built for Linux: it runs on PCs and virtual phones, never on Android"
        yield found("host_build", said, "for phones, build MNN with the NDK", warning=True)
    for elf in scope.files.values():
        if elf.kind == "program" and elf.interpreter is not None and not _is_known(elf.interpreter):
            said = f"{elf.path} asks for the dynamic linker {elf.interpreter}, which no phone has"
            yield found("interpreter_unknown", said, "build it with the NDK, or link it statically")
        if platform != "linux":
            yield from _check_file(elf, scope.abi)
    if platform != "linux" and scope.abi in BIG_PAGE_ABIS:
        yield from _check_pages(scope, page_bytes)


def _is_known(linker: str) -> bool:
    return is_android_linker(linker) or is_glibc_linker(linker)


def _check_file(elf: ElfFile, abi: str) -> Iterator[Problem]:
    if elf.text_relocations:
        said = f"{elf.path} has text relocations: Android 6 and later refuse to load it"
        yield found("text_relocations", said, "build all its code with -fPIC")
    if elf.kind == "program" and not elf.position_independent and not elf.static:
        said = f"{elf.path} is not position-independent: Android 5 and later refuse to start it"
        yield found("not_position_independent", said, "build it with -fPIE -pie")
    least = _TLS_BYTES.get(abi, 1)
    # A static program carries its own C library: without the NDK's note that is not bionic, and nobody checks.
    of_bionic = not elf.static or elf.android_api is not None
    if elf.kind == "program" and of_bionic and elf.tls_align_bytes is not None and elf.tls_align_bytes < least:
        said = (
            f"{elf.path} aligns its thread-local data to {elf.tls_align_bytes} bytes: "
            f"Android 10 and later stop it, they want {least} for {abi}"
        )
        yield found("tls_alignment", said, "build it with NDK r21 or newer for API level 29 or later")


def _check_pages(scope: Scope, page_bytes: int | None) -> Iterator[Problem]:
    wanted = page_bytes or BIG_PAGE_BYTES
    small = {name: elf.page_bytes for name, elf in scope.files.items() if elf.page_bytes < wanted}
    if small:
        files = ", ".join(f"{name} ({align})" for name, align in small.items())
        said = f"{scope.path} ({scope.abi}): aligned to less than {wanted} bytes: {files}"
        fix = (
            "build with NDK r28 or newer, with r27 and -DANDROID_SUPPORT_FLEXIBLE_PAGE_SIZES=ON, "
            "or link with -Wl,-z,max-page-size=16384 -Wl,-z,common-page-size=16384"
        )
        yield found(
            "page_alignment",
            f"{said}; phones with memory pages of {wanted // 1024} KB do not load it",
            fix,
            warning=page_bytes is None,
        )
