"""The rungs, from the ground up. What this computer can find out by itself comes before the phone is asked."""

from __future__ import annotations

from harness.diagnose.rung import Rung

MODEL = Rung("model", "the model folder is whole", "no phone can run it: files are missing, cut off or not its own")
HOST = Rung("host", "this computer runs the model", "the model or its export is at fault, not the phone")
PHONE = Rung("phone", "the phone answers", "the cable, adb or the phone's permission is at fault")
STORAGE = Rung("storage", "the phone's storage takes files", "it is full, read-only or failing: nothing can be brought")
PROBE = Rung("probe", "a static program runs there", "the phone runs no programs from our folder")
READY = Rung("ready", "the phone is free, charged and tells its facts", "somebody uses it, or it has no power")
BUNDLE = Rung("bundle", "the bundle fits this phone", "wrong ABI, CPU, Android or pages, or files of two builds")
ENGINE = Rung("engine", "the engine knows the model", "the model is newer than the engine")
MEMORY = Rung("memory", "the phone can hold the model", "the model is too big for this phone, whatever is set")
PAYLOAD = Rung("payload", "bundle and model arrive whole", "the phone's storage or the connection loses them")
LINKS = Rung("links", "the bundle links and starts", "a library is missing or wrong, or the CPU lacks an instruction")
LOAD = Rung("load", "the engine loads the model on CPU, 1 thread", "the engine does not take this model on this phone")
TOKEN = Rung("token", "one token comes", "the engine breaks while it computes, in its simplest setting")
TEXT = Rung("text", "the text is that of the reference", "the engine computes wrongly on this phone's CPU")
THREADS = Rung("threads", "all threads", "it breaks as soon as several threads compute")
OPENCL = Rung("opencl", "the GPU by OpenCL", "the driver, or the engine's use of it, is at fault")
VULKAN = Rung("vulkan", "the GPU by Vulkan", "the driver, or the engine's use of it, is at fault")
PROMPT = Rung("prompt", "a long prompt", "length breaks it: memory, or how the engine reads long prompts")
SUSTAINED = Rung(
    "sustained",
    "generating without a pause",
    "time or a further answer breaks it: heat, leaks, what is left of an answer",
)

GPU = {"opencl": OPENCL, "vulkan": VULKAN}
