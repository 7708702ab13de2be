"""What a build of MNN was made with, as far as its files tell.

MNN is built without run-time types and with hidden symbols, and a release is stripped: what stays are the messages that
it can print. Those used here were looked up in MNN's source at its releases from 2.9.6 to 3.6.1: each stands where the
build option includes it and nowhere else. In a newer engine a missing message proves nothing: the answer is ``None``.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from harness.core.errors import BundleError
from harness.payload.bundle_deps import Platform
from harness.payload.bundle_manifest import RunnerName
from harness.payload.elf import ElfFile
from harness.payload.elf_constant import constant_of
from harness.payload.elf_image import BROKEN, ElfImage

#: The programs that can run cells, by the name of their runner: those of language models first, then MNN's own tools
#: for other models; of each the most telling one first.
PROGRAMS: Mapping[RunnerName, str] = {
    "farm_runner": "farm_runner",
    "llm_bench": "llm_bench",
    "llm_demo": "llm_demo",
    "modulebasic": "ModuleBasic.out",
    "mnnv2basic": "MNNV2Basic.out",
    "benchmark": "benchmark.out",
}
#: Their files.
PROGRAM_FILES = tuple(PROGRAMS.values())
#: Backends that MNN puts into a library of their own when it is built with MNN_SEP_BUILD.
SEPARATE = {
    "libMNN_CL.so": "opencl",
    "libMNN_Vulkan.so": "vulkan",
    "libMNN_GL.so": "opengl",
    "libMNN_NPU.so": "hiai",
}
#: Libraries that a backend opens when it runs, by how their names begin.
OPENED = ("libMNN_htpops", "libQnn", "libhiai")
#: What a backend says or calls, and says or calls alone.
_BACKENDS = {
    "opencl": b"clGetPlatformIDs\0",
    "vulkan": b"vkGetInstanceProcAddr\0",
    "qnn": b"libQnnHtp.so\0",
    "hexagon": b"libMNN_htpops.so\0",
    "nnapi": b"ANeuralNetworksModel_create\0",
}
_ENGINE = b"Can't Find type=%d backend"
_LLM = b"llm_config.json\0"
_FUSE = b"memory-map the kvcache"  # of the cache that only the fused attention has
_DEBUG = b"Error for %s, %d\n\0"  # of assertions
_LOW_MEMORY = (
    b"Call error for:MNNAsyLocalQuantInfo_EP1",
    b"dynamic quant error: x86_x64 sse",
    b"dynamic quant error: x86_x64 avx2",
    b"only support low memory mode of int8",
)
_LOGCAT = b"\0__android_log_print\0"
#: The releases whose messages were looked up; the last of them goes up with each that is.
_FUSE_TOLD = ((2, 9, 6), (3, 6, 1))
_LOW_MEMORY_TOLD = ((3, 1, 4), (3, 6, 1))
#: ABIs whose code has such a message.
_LOW_MEMORY_ABIS = ("arm64-v8a", "x86_64")
#: ``MNN::getVersion()``, and for files that do not export it the text it returns. Where MNN's language models are built
#: in there is a second one, the HTTP library's, which is older than its first release.
_GET_VERSION = b"_ZN3MNN10getVersionEv"
_VERSION = re.compile(rb"\0([1-9]\d?\.\d{1,3}\.\d{1,3})(?=\0)")
#: One line of llm_bench's help, e.g. ``  -p, --n-prompt <n>``.
_OPTION = re.compile(rb"[\0\n] {1,4}(-{1,2}[a-zA-Z][\w-]*)(?:, (--[a-zA-Z][\w-]*))?(?=[ \n\0])")


@dataclass(frozen=True)
class Traits:
    """What a build was made with; ``None`` where its files do not tell.

    Attributes:
        engine: ``MNN`` where one of the files is its engine.
        engine_version: e.g. ``3.6.1``.
        backends: what it can be asked for, the CPU first.
        separate: backends that lie in a library of their own, and which.
        unloaded: libraries of backends or opened by them that a program neither needs nor names, with those programs.
        llm: whether language models are built in.
        transformer_fuse: whether the fused operators of language models are (MNN_SUPPORT_TRANSFORMER_FUSE).
        low_memory: whether weights may stay quantized in memory (MNN_LOW_MEMORY).
        logcat: whether the engine's messages go to logcat instead of its output (MNN_USE_LOGCAT).
        debug_build: whether its assertions are on.
        llm_bench_options: the options in llm_bench's help, short before long, as they stand there.
    """

    engine: str | None = None
    engine_version: str | None = None
    backends: tuple[str, ...] = ()
    separate: Mapping[str, str] = field(default_factory=dict)
    unloaded: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    llm: bool | None = None
    transformer_fuse: bool | None = None
    low_memory: bool | None = None
    logcat: bool | None = None
    debug_build: bool | None = None
    llm_bench_options: tuple[str, ...] | None = None


@dataclass(frozen=True)
class _Scan:
    """What one file holds."""

    has: frozenset[bytes]
    versions: frozenset[str]
    options: tuple[str, ...]


def read_traits(files: Mapping[str, ElfFile], platform: Platform | None, abi: str) -> Traits:
    """Look through the files of one variant, by their names.

    Raises:
        BundleError: a file cannot be read any more.
    """
    names = [name.encode() + b"\0" for name in files if name in SEPARATE]
    markers = [_ENGINE, _LLM, _FUSE, _DEBUG, *_LOW_MEMORY, _LOGCAT, *_BACKENDS.values(), *names]
    scans = {name: _scan(name, elf, markers) for name, elf in files.items()}
    engines = [name for name, scan in scans.items() if _ENGINE in scan.has]
    bench = scans.get("llm_bench")
    unloaded = _unloaded(files, scans)
    if not engines:
        return Traits(unloaded=unloaded, llm_bench_options=bench.options if bench and bench.options else None)
    versions = {version for name in engines for version in scans[name].versions}
    version = versions.pop() if len(versions) == 1 else None
    has = frozenset(marker for scan in scans.values() for marker in scan.has)
    separate = {SEPARATE[name]: name for name in files if name in SEPARATE}
    built_in = [backend for backend, marker in _BACKENDS.items() if marker in has and backend not in separate]
    return Traits(
        engine="MNN",
        engine_version=version,
        backends=("cpu", *(name for name in (*_BACKENDS, "opengl", "hiai") if name in built_in or name in separate)),
        separate=separate,
        unloaded=unloaded,
        llm=_told(_LLM in has, version, _FUSE_TOLD),
        transformer_fuse=_told(_FUSE in has, version, _FUSE_TOLD),
        low_memory=_told(
            any(marker in has for marker in _LOW_MEMORY), version, _LOW_MEMORY_TOLD if abi in _LOW_MEMORY_ABIS else None
        ),
        logcat=_logcat([files[name] for name in engines], platform, found=_LOGCAT in has),
        debug_build=_DEBUG in has,
        llm_bench_options=bench.options if bench and bench.options else None,
    )


def _scan(name: str, elf: ElfFile, markers: Iterable[bytes]) -> _Scan:
    try:
        with elf.path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            end = min(elf.loaded_bytes, len(data))
            has = frozenset(marker for marker in markers if data.find(marker, 0, end) >= 0)
            versions = _versions(data, end) if _ENGINE in has else set()
            options = _options(data, end) if name == "llm_bench" else ()
            return _Scan(has, frozenset(versions), options)
    except (OSError, EOFError, *BROKEN) as error:  # it was whole when it was read, and was written to since
        raise BundleError("file_unreadable", f"{elf.path} cannot be read ({error})", remedy="check the file") from error


def _versions(data: mmap.mmap, end: int) -> set[str]:
    version = constant_of(ElfImage(data), _GET_VERSION)
    if version is not None and re.fullmatch(r"\d+\.\d+\.\d+", version):
        return {version}
    return {found[1].decode() for found in _VERSION.finditer(data, 0, end)}


def _options(data: mmap.mmap, end: int) -> tuple[str, ...]:
    found = [option.decode() for m in _OPTION.finditer(data, 0, end) for option in m.groups() if option]
    return tuple(dict.fromkeys(found))


def _told(found: bool, version: str | None, told: tuple[tuple[int, ...], tuple[int, ...]] | None) -> bool | None:
    """Say whether an option was on: a message proves it, its lack only in a release whose messages are known."""
    if found:
        return True
    if version is None or told is None:
        return None
    return False if told[0] <= tuple(int(part) for part in version.split(".")) <= told[1] else None


def _logcat(engines: Iterable[ElfFile], platform: Platform | None, *, found: bool) -> bool | None:
    if platform == "linux":
        return False
    return found if not any(engine.static for engine in engines) else None


def _unloaded(files: Mapping[str, ElfFile], scans: Mapping[str, _Scan]) -> dict[str, tuple[str, ...]]:
    """Find libraries that only count once they are loaded, and the programs from which no way leads to them."""
    leads_to = {
        name: {other for other in files if other != name and (other in elf.needed or _named(other, scans[name]))}
        for name, elf in files.items()
    }
    unloaded: dict[str, tuple[str, ...]] = {}
    programs = [name for name in PROGRAM_FILES if name in files]
    reached = {program: _reach(program, leads_to) for program in programs}
    for name in files:
        if name in SEPARATE:
            without = tuple(program for program in programs if name not in reached[program])
            if without:
                unloaded[name] = without
    return unloaded


def _named(name: str, scan: _Scan) -> bool:
    return name.encode() + b"\0" in scan.has


def _reach(start: str, leads_to: Mapping[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    todo = [start]
    while todo:
        name = todo.pop()
        if name not in reached:
            reached.add(name)
            todo += leads_to[name]
    return reached
