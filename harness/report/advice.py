"""What to do about each reason, and whose fault it is, in words for somebody who did not write the harness."""

from __future__ import annotations

from typing import Final

from harness.core.reasons import Fault, Reason

WHOSE: Final[dict[Fault, str]] = {
    Fault.PRODUCT: "model, engine or the phone's driver",
    Fault.INFRA: "the lab, that is cable, adb, storage or the phone's state",
    Fault.CONFIG: "the plan or what it was given",
    Fault.HARNESS: "a bug of mnn-farm itself",
}

# The same in one word, for a headline.
WHOSE_SHORT: Final[dict[Fault, str]] = {
    Fault.PRODUCT: "the product",
    Fault.INFRA: "the lab",
    Fault.CONFIG: "the plan",
    Fault.HARNESS: "mnn-farm",
}

# For a cell that is red only beside an earlier run.
SLOWER_ADVICE: Final = (
    "Run these cells again before you believe it; then look at what changed: model, device binaries, the phone's "
    "Android build. `mnn-farm compare` tells how sure it is."
)
LOST_ADVICE: Final = (
    "It ran there in the run compared with: see what changed since, in the device binaries, the model or the phone's "
    "Android build."
)

ADVICE: Final[dict[Reason, str]] = {
    Reason.BACKEND_FALLBACK: "Do not ship this backend on this phone. Check that the engine was built with it and that "
    "its driver library opens from this context; the raw log holds the engine's own words.",
    Reason.BACKEND_UNPROVEN: "Run it with farm_runner, which asks the engine what it runs; other runners may not say.",
    Reason.OUTPUT_WRONG: "Compare the text with the reference below; try precision high, then 8-bit weights. "
    "A speed with wrong text is worth nothing.",
    Reason.OUTPUT_DEGENERATE: "Try precision high and another backend; if both are empty or loop, convert the model "
    "again and check its tokenizer and chat template.",
    Reason.TOKEN_COUNT_SHORT: "Look at how each generation finished in the raw events: an early end of text needs "
    "another prompt, an error needs a fix.",
    Reason.IMPLAUSIBLE_SPEED: "The weights were probably not read: verify the model folder (`mnn-farm models verify`) "
    "and look at the token counts in the raw events.",
    Reason.NOISY: "Stop other work on the phone, let it cool, run again with `--resume`; if that does not help, raise "
    "`repeats` in a new run.",
    Reason.HOT_START: "Give the phone more time or air; raise `timeout_s` under `[cool]` in the plan.",
    Reason.THROTTLED: "Cool the phone and run again with `--resume`, or lower the load in a new run: fewer repeats, "
    "shorter generations.",
    Reason.SUSPENDED: "Keep the phone awake: plugged in, battery saver off; then run again.",
    Reason.CLOCK_JUMPED: "Switch off automatic time on the phone, or wait until it has synchronised; then run again.",
    Reason.LOW_AVAILABLE_MEMORY: "Close apps or reboot the phone, then run again.",
    Reason.UNPARSED_OUTPUT: "Send us the raw folder: this runner's output has a form that we do not read.",
    Reason.STALE_CACHE: "Run `mnn-farm clean --device … --payloads`, then the cell again; tell us if it returns.",
    Reason.CRASH: "Read the last lines of stderr in the raw folder, then look at the phone's tombstone.",
    Reason.ILLEGAL_INSTRUCTION: "Use device binaries built for this CPU, or switch off the feature (dot product, i8mm, "
    "SVE) that it lacks.",
    Reason.LINK_ERROR: "Push the library that the linker names, or link it statically; its NEEDED "
    "entries say what it wants.",
    Reason.LOAD_ERROR: "Verify the model folder (`mnn-farm models verify`) and that the engine is as new as the model.",
    Reason.ENGINE_ERROR: "Read the engine's message in the raw log; try the CPU to see if the model is at fault.",
    Reason.GPU_DRIVER_ERROR: "Try another GPU backend or the CPU; report the driver version to the phone's vendor.",
    Reason.OUT_OF_MEMORY: "Use a smaller model or fewer bits, set `use_mmap = true`, or shorten the context.",
    Reason.HANG: "See in the raw events which step it stopped in; try fewer threads or another backend.",
    Reason.SILENT_EXIT: "Look at the exit status and at logcat in the raw folder: the system may have killed it.",
    Reason.THERMAL_SHUTDOWN: "Take the phone out and let it cool; do not run this load on it again unattended.",
    Reason.DEVICE_LOST: "Check cable, port and hub power; then run again with `--resume`. `mnn-farm devices history` "
    "tells whether it is the port.",
    Reason.DEVICE_OFFLINE: "Replug the phone or switch USB debugging off and on; then run again with `--resume`.",
    Reason.UNAUTHORIZED: "Unlock the phone and accept this computer's key (tick *always allow*). If it does not ask, "
    "`mnn-farm doctor` looks at the keys.",
    Reason.REBOOTED: "If it rebooted during a cell of the same kind before, suspect the product; else run again.",
    Reason.PUSH_FAILED: "Check the cable and the phone's storage; then run again with `--resume`.",
    Reason.PAYLOAD_CORRUPT: "Change the cable or port; `mnn-farm clean --device … --payloads`, then run again.",
    Reason.NO_SPACE: "Free storage on the phone, or take our files off it: `mnn-farm clean --device …`.",
    Reason.READ_ONLY: "Reboot the phone; if its storage stays read-only, take it out of service.",
    Reason.NOEXEC: "Use a folder from which the phone runs programs: /data/local/tmp, not the SD card.",
    Reason.ADB_ERROR: "Two adb versions on one computer are the usual cause: `mnn-farm doctor` names them. "
    "Keep one, then run again with `--resume`.",
    Reason.LEASE_LOST: "Ask who took the phone, and run again with `--resume` when it is free.",
    Reason.THERMAL_TRIP: "Let the phone cool, shorten the load, check its place and battery; then run again.",
    Reason.LINK_STALLED: "Check cable, port and hub; if `mnn-farm devices history` names the port again, use another.",
    Reason.HOST_DISK_FULL: "Make room on this computer (old runs lie below reports/) and run again with `--resume`.",
    Reason.BAD_PLAN: "Mend the plan as the detail says.",
    Reason.MODEL_INCOMPLETE: "Fetch or convert the model again; `mnn-farm models verify` names the missing file.",
    Reason.BUNDLE_MISMATCH: "Take runner and engine libraries from one build, of an MNN as new as the one that "
    "exported the model.",
    Reason.HARNESS_ERROR: "Send us the detail and the raw folder; it is not the phone's or the model's fault.",
    Reason.BACKEND_NOT_BUILT: "Nothing to mend if it is not wanted; else import binaries built with this backend.",
    Reason.BACKEND_MISSING_ON_PHONE: "Nothing to mend: this phone has no such driver. Use the CPU on it.",
    Reason.ABI_MISMATCH: "Bring device binaries built for this ABI and name them with `--bundle`.",
    Reason.ISA_MISMATCH: "Import device binaries built without the missing CPU feature.",
    Reason.MODEL_TOO_BIG: "Use a smaller model or fewer bits on phones with this much memory; docs/models.md lists "
    "what else helps.",
    Reason.OP_UNSUPPORTED: "Use the CPU for this model, or export it without the operator named in the detail.",
    Reason.LOW_BATTERY: "Charge the phone, then run again with `--resume`.",
    Reason.TOO_HOT: "Let the phone cool, then run again; raise `timeout_s` under `[cool]` if need be.",
    Reason.BUSY: "See who has it with `mnn-farm devices`; run again with `--wait-lease`, or when it is free.",
    Reason.HELD: "See who holds it, why and until when with `mnn-farm devices`; when it is mended, "
    "`mnn-farm devices release` ends the hold.",
    Reason.EXCLUDED: "Nothing to do: the plan says so.",
    Reason.OUT_OF_TIME: "Run again with `--resume` and more time (`--until`, `--budget`), or run fewer cells anew.",
    Reason.PHONE_GONE: "Reconnect the phone, then run again with `--resume`.",
}
