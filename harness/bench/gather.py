"""Reads a phone's facts: asks every source once, and a source that fails costs its own facts only."""

from __future__ import annotations

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
# Everything that cannot hang, in one round trip: each source between a line that begins and a line that ends it with
# its exit code. $1 is a word that no phone can guess, $2 our folder; the rest are constants, which the shell expands.
_SCRIPT = f"""
exec 2>&1
begin() {{ echo "$mark begin $1"; }}
end() {{ code=$?; echo; echo "$mark end $code"; }}
mark=$1
begin getprop; getprop; end
begin drivers; ls -d {" ".join(_DRIVER_PLACES)}; end
begin df; df "$2"; end
begin {CPU_HARDWARE}; grep ^Hardware {CPU_HARDWARE}; end
for file in {SOC_ID} {KGSL_MODEL} {MALI_INFO} {" ".join(PUBLIC_LISTS)}; do
  [ -e "$file" ] || continue
  begin "$file"; cat "$file"; end
done
"""
# Asks for the version without importing the engine, which takes long and prints.
_PYTHON_MNN = """
import importlib.metadata, importlib.util
if importlib.util.find_spec("MNN"):
    print(importlib.metadata.version("MNN"))
"""
# Old phones have no `timeout`.
_BOUND = f"""
bound=
timeout {_SERVICE_ON_PHONE_S} true 2>/dev/null && bound='timeout {_SERVICE_ON_PHONE_S}'
"""
_DUMPSYS = f"{_BOUND}exec $bound dumpsys $1 2>&1"
# It prints a lot; only the lines that tell the GPU are wanted, and how it ended, which a pipe does not hand on.
_SURFACE_FLINGER = f"""{_BOUND}
{{ $bound dumpsys SurfaceFlinger 2>&1 || echo "dumpsys: exit code $?"; }} |
grep -e GLES -e 'RE Vulkan' -e ermission -e 'find service' -e '^dumpsys: exit code'
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
    screen = _ask(transport, ["sh", "-c", _SURFACE_FLINGER], "SurfaceFlinger", deadline, whys)
    thermal = _ask(transport, ["sh", "-c", _DUMPSYS, "sh", "thermalservice"], "thermal", deadline, whys)
    battery = _ask(transport, ["sh", "-c", _DUMPSYS, "sh", "battery"], "battery", deadline, whys)
    python = _ask(transport, ["python3", "-c", _PYTHON_MNN], "python_mnn", deadline, whys, PYTHON_S)
    told = Told(
        properties=properties,
        probe=probed,
        drivers=_drivers(sections, bits, whys),
        python_mnn=(python or b"").decode("utf-8", "replace").strip() or None,
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
    mark = f"mnn-farm-{secrets.token_hex(8)}"
    argv = ["sh", "-c", _SCRIPT, "sh", mark, transport.base_dir]
    limit = deadline.within(SCRIPT_S, "reading files of facts")
    try:
        out = transport.shell(argv, deadline=limit).stdout
    except DeadlineError:
        deadline.remaining_s()
        whys["script"] = f"the phone did not answer within {SCRIPT_S:g} s"
        return {}
    whys["script"] = "the phone's shell did not say"
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
    seconds: float = SERVICE_S,
) -> bytes | None:
    """Return what a command printed; ``None``, with the reason in ``whys``, when it hangs, fails or is not there."""
    try:
        answer = transport.shell(argv, deadline=deadline.within(seconds, f"asking for {name}"))
    except DeadlineError:
        deadline.remaining_s()  # the whole deadline has passed: then it is the phone, not this source
        whys[name] = f"the phone did not answer within {seconds:g} s"
        return None
    if answer.exit_code != 0:
        whys[name] = _Section(answer.stdout or answer.stderr, answer.exit_code).why
        return None
    if b"Can't find service" in answer.stdout[:200]:
        whys[name] = "this Android has no such service"
        return None
    return answer.stdout


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
