"""Reads a phone's facts: asks every source once, and a source that fails costs its own facts only."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from harness.core.deadline import Deadline
from harness.core.errors import DeadlineError
from harness.core.transport import Transport
from harness.payload.probe import Probe
from harness.phone.battery import parse_battery
from harness.phone.drivers import (
    OPENCL_LIBRARIES,
    PUBLIC_LISTS,
    VULKAN_DRIVERS,
    DriverListing,
    for_bits,
    parse_drivers,
    parse_public_libraries,
)
from harness.phone.facts import Facts, Told, abis_of, build_facts, sdk_of
from harness.phone.getprop import parse_getprop
from harness.phone.gpu import KGSL_MODEL, MALI_INFO, gpu_of
from harness.phone.soc import CPU_HARDWARE, SOC_ID
from harness.phone.storage import Storage, parse_df
from harness.phone.thermalservice import parse_thermalservice

# A service that hangs may take this long; the phone's own `timeout`, where it has one, ends it a little earlier, so
# that nothing of ours is left waiting there.
SERVICE_S = 10.0
_SERVICE_ON_PHONE_S = 8
# What `timeout` says of a program that it had to end, by its age.
_KILLED = frozenset({124, 137, 143})
SCRIPT_S = 15.0
PYTHON_S = 12.0

_DRIVER_PLACES = tuple(
    dict.fromkeys(for_bits(place, bits) for place in (*OPENCL_LIBRARIES, *VULKAN_DRIVERS) for bits in (64, 32))
)
# Each source stands between a line that begins and a line that ends it with its exit code; $1 is a word that no phone
# can guess.
_SECTIONS = """
exec 2>&1
begin() { echo "$mark begin $1"; }
end() { code=$?; echo; echo "$mark end $code"; }
mark=$1
"""
# Everything that cannot hang, in one round trip. $2 is our folder; the rest are constants, which the shell expands.
_SCRIPT = f"""{_SECTIONS}
begin getprop; getprop; end
begin drivers; ls -d {" ".join(_DRIVER_PLACES)}; end
begin df; df "$2"; end
begin {CPU_HARDWARE}; grep ^Hardware {CPU_HARDWARE}; end
for file in {SOC_ID} {KGSL_MODEL} {MALI_INFO} {" ".join(PUBLIC_LISTS)}; do
  [ -e "$file" ] || continue
  begin "$file"; cat "$file"; end
done
"""
# Asks for the version without importing the engine, which takes long and prints. Pythons may print warnings, too.
_PYTHON_MNN = """
import importlib.metadata, importlib.util
if importlib.util.find_spec("MNN"):
    print("MNN", importlib.metadata.version("MNN"))
"""
_MNN_LINE = re.compile(rb"(?m)^MNN (\S+)\r?$")
# Old phones have no `timeout`. Toybox's says 127 of a command that ended before it began to wait for it (0.8.9 was seen
# to); else 127 means that there is no such command.
_BOUND = f"""
bound=
command -v timeout >/dev/null && bound='timeout {_SERVICE_ON_PHONE_S}'
ended() {{
  code=$?
  [ $code -ne 127 ] || [ -z "$bound" ] || ! command -v "$1" >/dev/null || code=0
  return $code
}}
"""
_DUMPSYS = f"{_BOUND}$bound dumpsys $1 2>&1; ended dumpsys"
# It prints a lot; only the lines that tell the GPU are wanted, and how it ended, which a pipe does not hand on.
_SCREEN_LINES = """{ $bound dumpsys SurfaceFlinger 2>&1; ended dumpsys || echo "dumpsys: exit code $?"; } |
grep -e GLES -e 'RE Vulkan' -e ermission -e 'find service' -e '^dumpsys: exit code'
"""
# What may hang, by the name of its section: how it is asked alone, and how long it may take.
_SERVICES: Mapping[str, tuple[list[str], float]] = {
    "SurfaceFlinger": (["sh", "-c", f"{_BOUND}{_SCREEN_LINES}"], SERVICE_S),
    "thermal": (["sh", "-c", _DUMPSYS, "sh", "thermalservice"], SERVICE_S),
    "battery": (["sh", "-c", _DUMPSYS, "sh", "battery"], SERVICE_S),
    "python_mnn": (["python3", "-c", _PYTHON_MNN], PYTHON_S),
}
# All of them in one round trip, where the phone's own `timeout` bounds each: else the one that hangs would cost all.
_TOGETHER = f"""{_SECTIONS}{_BOUND}
[ -n "$bound" ] || exit 0
begin SurfaceFlinger; {_SCREEN_LINES}end
begin thermal; $bound dumpsys thermalservice; ended dumpsys; end
begin battery; $bound dumpsys battery; ended dumpsys; end
begin python_mnn
if command -v python3 >/dev/null; then $bound python3 -c "$2"; ended python3; else python3; fi
end
"""


@dataclass(frozen=True)
class _Section:
    """What a source printed, complaints included."""

    text: bytes
    code: int

    @property
    def why(self) -> str:
        """Its first line, for people."""
        if self.code in _KILLED:
            return f"it did not answer within {_SERVICE_ON_PHONE_S} s"
        lines = self.text.decode("utf-8", "replace").strip().splitlines()
        return lines[0].strip()[:160] if lines else f"it ended with exit code {self.code} and said nothing"


def gather_facts(transport: Transport, probe: Probe, deadline: Deadline) -> Facts:
    """Read everything that is known of a phone.

    Raises:
        PhoneError: the phone is lost, ``deadline`` passed, or the probe does not work.
    """
    probed = probe.facts()
    whys: dict[str, str] = {}
    sections = _sections(transport, deadline, whys)
    properties = parse_getprop(sections["getprop"].text) if "getprop" in sections else {}
    abis = abis_of(properties, probed)
    bits = 64 if not abis or any("64" in abi for abi in abis) else 32
    kgsl_model, mali_info = _content(sections, KGSL_MODEL), _content(sections, MALI_INFO)
    services = _services(transport, deadline, whys)
    screen, thermal, battery = (services[name] for name in ("SurfaceFlinger", "thermal", "battery"))
    python = _MNN_LINE.search(services["python_mnn"] or b"")
    told = Told(
        properties=properties,
        probe=probed,
        drivers=_drivers(sections, bits, whys),
        python_mnn=None if python is None else python[1].decode("utf-8", "replace"),
        kernel_soc=_kernel_soc(sections),
        gpu=gpu_of(screen or b"", kgsl_model, mali_info, properties, whys.get("SurfaceFlinger", "")),
        public_libraries=parse_public_libraries(_public_lists(sections), sdk_of(properties), bits),
        storage=_storage(sections, transport.base_dir, whys),
        battery=None if battery is None else parse_battery(battery),
        thermal=None if thermal is None else parse_thermalservice(thermal),
        whys=whys,
    )
    return build_facts(told)


def _sections(transport: Transport, deadline: Deadline, whys: dict[str, str]) -> dict[str, _Section]:
    limit = deadline.within(SCRIPT_S, "reading files of facts")
    sections = _run_script(transport, _SCRIPT, transport.base_dir, deadline, limit)
    if sections is None:
        whys["script"] = f"the phone did not answer within {SCRIPT_S:g} s"
        return {}
    whys["script"] = "the phone's shell did not say"
    return sections


def _services(transport: Transport, deadline: Deadline, whys: dict[str, str]) -> dict[str, bytes | None]:
    """Return what each service printed: asked together, and alone where that told nothing of it."""
    limit = deadline.within(sum(seconds for _, seconds in _SERVICES.values()), "asking the services")
    sections = _run_script(transport, _TOGETHER, _PYTHON_MNN, deadline, limit) or {}
    return {
        name: _told(sections[name], name, whys) if name in sections else _ask(transport, argv, name, deadline, whys, s)
        for name, (argv, s) in _SERVICES.items()
    }


def _run_script(
    transport: Transport, script: str, word: str, deadline: Deadline, limit: Deadline
) -> dict[str, _Section] | None:
    """Return the sections that a script told; ``None`` when ``limit`` passed.

    Raises:
        DeadlineError: all of ``deadline`` has passed.
    """
    mark = f"mnn-farm-{secrets.token_hex(8)}"
    try:
        out = transport.shell(["sh", "-c", script, "sh", mark, word], deadline=limit).stdout
    except DeadlineError:
        deadline.remaining_s()
        return None
    return split_sections(out, mark)


def split_sections(out: bytes, mark: str) -> dict[str, _Section]:
    """Return what each source of the script printed; a section that does not end is cut off and not returned."""
    found: dict[str, _Section] = {}
    name, lines = "", list[bytes]()
    begin, end = f"{mark} begin ".encode(), f"{mark} end ".encode()
    for line in out.replace(b"\r\n", b"\n").split(b"\n"):
        if line.startswith(begin):
            name, lines = line[len(begin) :].decode("utf-8", "replace"), []
        elif line.startswith(end) and name:
            code = line[len(end) :].strip()
            # The script ends every source with a line break of its own.
            text = b"\n".join(lines[:-1] if lines and not lines[-1] else lines)
            found[name] = _Section(text, int(code) if code.isdigit() else -1)
            name = ""
        else:
            lines.append(line)
    return found


def _ask(
    transport: Transport,
    argv: list[str],
    name: str,
    deadline: Deadline,
    whys: dict[str, str],
    seconds: float,
) -> bytes | None:
    """Return what a command printed; ``None``, with the reason in ``whys``, when it hangs, fails or is not there."""
    try:
        answer = transport.shell(argv, deadline=deadline.within(seconds, f"asking for {name}"))
    except DeadlineError:
        deadline.remaining_s()  # the whole deadline has passed: then it is the phone, not this source
        whys[name] = f"the phone did not answer within {seconds:g} s"
        return None
    text = answer.stdout if answer.exit_code == 0 else answer.stdout or answer.stderr
    return _told(_Section(text, answer.exit_code), name, whys)


def _told(section: _Section, name: str, whys: dict[str, str]) -> bytes | None:
    """Return what a service said; ``None``, with the reason in ``whys``, when it failed or is not there."""
    if section.code != 0:
        whys[name] = section.why
        return None
    if b"Can't find service" in section.text[:200]:
        whys[name] = "this Android has no such service"
        return None
    return section.text


def _storage(sections: Mapping[str, _Section], path: str, whys: Mapping[str, str]) -> Storage:
    section = sections.get("df")
    return Storage(None, None, whys["script"]) if section is None else parse_df(section.text, path)


def _content(sections: Mapping[str, _Section], path: str) -> bytes | None:
    section = sections.get(path)
    return section.text if section is not None and section.code == 0 else None


def _kernel_soc(sections: Mapping[str, _Section]) -> dict[str, str]:
    said = {path: (_content(sections, path) or b"").decode("utf-8", "replace") for path in (SOC_ID, CPU_HARDWARE)}
    # "Hardware	: Maker's CHIP 1": one line, or one a core on some kernels
    hardware = said[CPU_HARDWARE].strip().split("\n")[0].partition(":")[2]
    return {SOC_ID: said[SOC_ID].strip(), CPU_HARDWARE: hardware.strip()}


def _public_lists(sections: Mapping[str, _Section]) -> dict[str, bytes | None]:
    return {path: _content(sections, path) for path in sections if "public.libraries" in path}


def _drivers(sections: Mapping[str, _Section], bits: int, whys: Mapping[str, str]) -> DriverListing:
    if "drivers" not in sections:
        return DriverListing(None, None, dict.fromkeys(("opencl", "vulkan"), whys["script"]))
    return parse_drivers(sections["drivers"].text, bits)
