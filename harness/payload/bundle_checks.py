"""What can be wrong with device binaries: the name of each check, which does not change, and what it found.

``docs/bundles.md`` holds the same table. A finding is a :class:`~harness.payload.model_problem.Problem`, as for models.
"""

from __future__ import annotations

#: Code → what was found, and what most often helps; each finding says what helps with it.
BUNDLE_CHECKS = {
    "bundle_empty": (
        "there is neither a program nor a library in it",
        "name the folder that MNN was built in, or an unpacked release of it",
    ),
    "bundle_wrong_abi": (
        "a file is for another ABI than those beside it, or for none that phones have",
        "put the files of each ABI into a folder of its name, or build the file for it",
    ),
    "variant_twice": (
        "two folders hold the same ABI",
        "name one of the two folders, or put the files into one",
    ),
    "file_twice": (
        "two different files have the same name",
        "remove the one of another build",
    ),
    "library_missing": (
        "a file needs a library that is neither in the bundle nor on every Android",
        "add it, from the same MNN build or from the NDK, or build without it",
    ),
    "symbol_missing": (
        "a file calls functions of MNN that no other file has: they are of different builds",
        "take all files from one build of MNN",
    ),
    "vendor_library": (
        "a file needs a library that only some phones or PCs have",
        "build MNN so that it opens it when it runs (MNN_USE_SYSTEM_LIB=OFF)",
    ),
    "system_library_hidden": (
        "the bundle's copy of a library would be loaded instead of the phone's own",
        "leave it out: it is on the phone",
    ),
    "interpreter_unknown": (
        "a program asks for a dynamic linker that no phone has",
        "build it with the NDK, or link it statically",
    ),
    "host_build": (
        "built for Linux: runs on PCs and virtual phones, never on Android",
        "build it with the NDK for phones",
    ),
    "not_position_independent": (
        "Android starts no such program since 5.0",
        "build it with -fPIE -pie",
    ),
    "page_alignment": (
        "cannot be loaded by phones whose memory pages have 16 KB",
        "link it with -Wl,-z,max-page-size=16384; an app: Android Gradle plugin 8.5.1, or zipalign -P 16",
    ),
    "tls_alignment": (
        "Android 10 and later stop the program for the alignment of its thread-local storage",
        "build it with NDK r21 or newer for API level 29 or later",
    ),
    "text_relocations": (
        "Android 6 and later load no library with text relocations",
        "compile all of it with -fPIC",
    ),
    "not_an_elf": (
        "something else is named like a program or a library",
        "put the real file there; a Git LFS pointer: git lfs pull",
    ),
    "elf_truncated": (
        "a program or a library is cut off",
        "copy or build it again",
    ),
    "elf_malformed": (
        "a program or a library is damaged",
        "copy or build it again",
    ),
    "file_unreadable": (
        "a file cannot be read",
        "check the file and who may read it",
    ),
    "file_name": (
        "a file has a name that is not used on phones",
        "rename it: letters, digits, dots, dashes and plus signs",
    ),
    "link_leads_out": (
        "a symbolic link leads out of the folder",
        "copy the file into the folder",
    ),
    "no_runner": (
        "none of llm_bench, llm_demo and farm_runner is in it, nor MNN's tools for other models",
        "build MNN with MNN_BUILD_LLM=ON, or our runner against it: mnn-farm bins build",
    ),
    "no_llm_bench": (
        "llm_bench is not in it",
        "add llm_bench of the same build",
    ),
    "no_llm_demo": (
        "llm_demo is not in it",
        "add llm_demo of the same build",
    ),
    "no_llm": (
        "the engine was built without language models",
        "build MNN with MNN_BUILD_LLM=ON",
    ),
    "no_transformer_fuse": (
        "the engine was built without its fused transformer operators",
        "build MNN with MNN_SUPPORT_TRANSFORMER_FUSE=ON",
    ),
    "logcat_output": (
        "the engine writes to logcat what a run needs to see",
        "build MNN with MNN_USE_LOGCAT=OFF",
    ),
    "separate_backend_unloaded": (
        "a backend lies in a library that nothing loads",
        "build MNN with MNN_SEP_BUILD=OFF, or link the program with the library",
    ),
    "debug_build": (
        "the engine was built for debugging and is slow",
        "build MNN with CMAKE_BUILD_TYPE=Release",
    ),
    "not_stripped": (
        "debugging information makes the files larger than they need be",
        "strip them: llvm-strip --strip-unneeded FILE",
    ),
    "archive_unsafe": (
        "an archive wants to write outside its folder or holds more than files",
        "pack it again without that entry, or unpack it yourself and name the folder",
    ),
    "archive_broken": (
        "an archive cannot be unpacked",
        "download or pack it again",
    ),
    "manifest_unreadable": (
        "an app's AndroidManifest.xml, or the bundle.toml that came with the files, cannot be read",
        "build the app again; correct bundle.toml, or remove it",
    ),
    "library_compressed": (
        "an app has compressed libraries, though it says that Android need not extract them",
        "pack them uncompressed (jniLibs.useLegacyPackaging = false)",
    ),
    "opencl_not_declared": (
        "an app brings MNN's OpenCL backend and does not declare that it loads the phone's OpenCL",
        "add a uses-native-library for libOpenCL.so to the app's manifest",
    ),
    "pin_differs": (
        "a file is not as it was when the bundle was imported",
        "import the bundle again",
    ),
}


def markdown_table() -> str:
    """Return the documentation's table of checks."""
    rows = [f"| `{name}` | {says} | {fix} |" for name, (says, fix) in BUNDLE_CHECKS.items()]
    return "\n".join(["| code | what was found | what to do |", "| --- | --- | --- |", *rows]) + "\n"
