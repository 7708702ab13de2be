"""What can be wrong with device binaries: the name of each check, which does not change, and what it found.

``docs/bundles.md`` holds the same table. A finding is a :class:`~harness.payload.model_problem.Problem`, as for models.
"""

from __future__ import annotations

BUNDLE_CHECKS = {
    "bundle_empty": "there is neither a program nor a library in it",
    "bundle_wrong_abi": "a file is for another ABI than those beside it, or for none that phones have",
    "variant_twice": "two folders hold the same ABI",
    "file_twice": "two different files have the same name",
    "library_missing": "a file needs a library that is neither in the bundle nor on every Android",
    "symbol_missing": "a file calls functions of MNN that no other file has: they are of different builds",
    "vendor_library": "a file needs a library that only some phones or PCs have",
    "system_library_hidden": "the bundle's copy of a library would be loaded instead of the phone's own",
    "interpreter_unknown": "a program asks for a dynamic linker that no phone has",
    "host_build": "built for Linux: runs on PCs and virtual phones, never on Android",
    "not_position_independent": "Android starts no such program since 5.0",
    "page_alignment": "cannot be loaded by phones whose memory pages have 16 KB",
    "tls_alignment": "Android 10 and later stop the program for the alignment of its thread-local storage",
    "text_relocations": "Android 6 and later load no library with text relocations",
    "not_an_elf": "something else is named like a program or a library",
    "elf_truncated": "a program or a library is cut off",
    "elf_malformed": "a program or a library is damaged",
    "file_unreadable": "a file cannot be read",
    "link_leads_out": "a symbolic link leads out of the folder",
    "no_runner": "none of llm_bench, llm_demo and farm_runner is in it",
    "no_llm_bench": "llm_bench is not in it",
    "no_llm_demo": "llm_demo is not in it",
    "no_llm": "the engine was built without language models",
    "no_transformer_fuse": "the engine was built without its fused transformer operators",
    "logcat_output": "the engine writes to logcat what a run needs to see",
    "separate_backend_unloaded": "a backend lies in a library that nothing loads",
    "debug_build": "the engine was built for debugging and is slow",
    "not_stripped": "debugging information makes the files larger than they need be",
    "archive_unsafe": "an archive wants to write outside its folder or holds more than files",
    "archive_broken": "an archive cannot be unpacked",
    "pin_differs": "a file is not as it was when the bundle was imported",
}


def markdown_table() -> str:
    """Return the documentation's table of checks."""
    rows = [f"| `{name}` | {says} |" for name, says in BUNDLE_CHECKS.items()]
    return "\n".join(["| code | what was found |", "| --- | --- |", *rows]) + "\n"
