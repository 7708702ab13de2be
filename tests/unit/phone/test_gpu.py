from __future__ import annotations

import pytest

from harness.phone.gpu import Gles, Gpu, gpu_contradicts, gpu_of, parse_gles, parse_kgsl_model, parse_mali_info


@pytest.mark.parametrize(
    ("line", "read"),
    [
        (
            "GLES: Qualcomm, Adreno (TM) 741, OpenGL ES 3.2 V@0700.1 (GIT@1a2b3c, I99aa, 1700000000) (Date:01/02/24)",
            Gles(
                "Qualcomm",
                "Adreno (TM) 741",
                "OpenGL ES 3.2 V@0700.1 (GIT@1a2b3c, I99aa, 1700000000) (Date:01/02/24)",
                "V@0700.1",
            ),
        ),
        (
            "GLES: ARM, Mali-G91 MC3, OpenGL ES 3.2 v1.r40p0-01eac0.0011223344",
            Gles("ARM", "Mali-G91 MC3", "OpenGL ES 3.2 v1.r40p0-01eac0.0011223344", "v1.r40p0-01eac0.0011223344"),
        ),
        ("GLES: ARM, Mali-G91, OpenGL ES 3.2", Gles("ARM", "Mali-G91", "OpenGL ES 3.2", None)),
        (
            "GLES: Samsung Electronics Co., Ltd., ANGLE (Samsung Xclipse 999) on Vulkan 1.3.1, OpenGL ES 3.2 ANGLE git",
            Gles(
                "Samsung Electronics Co., Ltd.",
                "ANGLE (Samsung Xclipse 999) on Vulkan 1.3.1",
                "OpenGL ES 3.2 ANGLE git",
                "ANGLE git",
            ),
        ),
        (
            "GLES: Google Inc. (ARM), ANGLE (ARM, Vulkan 1.3.1 (Mali-G91 (0xB0)), Mali G91-44.1.0), "
            "OpenGL ES 3.2 (ANGLE 2.1.2 git hash: 0a1b)",
            Gles(
                "Google Inc. (ARM)",
                "ANGLE (ARM, Vulkan 1.3.1 (Mali-G91 (0xB0)), Mali G91-44.1.0)",
                "OpenGL ES 3.2 (ANGLE 2.1.2 git hash: 0a1b)",
                "(ANGLE 2.1.2 git hash: 0a1b)",
            ),
        ),
        (
            "GLES: Imagination Technologies, PowerVR B-Series BXM, OpenGL ES 3.2 build 1.15@5700000",
            Gles(
                "Imagination Technologies",
                "PowerVR B-Series BXM",
                "OpenGL ES 3.2 build 1.15@5700000",
                "build 1.15@5700000",
            ),
        ),
        (
            "GLES: Google (Acme), Android Emulator OpenGL ES Translator (Acme HD), OpenGL ES 3.0 (4.5.0 - Build 27)",
            Gles(
                "Google (Acme)",
                "Android Emulator OpenGL ES Translator (Acme HD)",
                "OpenGL ES 3.0 (4.5.0 - Build 27)",
                "(4.5.0 - Build 27)",
            ),
        ),
        ("GLES: ARM, Mali-450 MP, OpenGL ES-CM 1.1", Gles("ARM", "Mali-450 MP", "OpenGL ES-CM 1.1", None)),
        ("GLES: Acme, Acmegraph 3", Gles("Acme", "Acmegraph 3", None, None)),
    ],
)
def test_the_line_of_surface_flinger_is_taken_apart(line: str, read: Gles) -> None:
    dump = f"Build configuration: [sf]\n ------------RE GLES (Ganesh)------------\n{line}\r\nEXT: GL_a, OpenGL ES\n"
    assert parse_gles(dump.encode()) == read


@pytest.mark.parametrize(
    "dump", [b"", b"------RE GLES (Ganesh)----\n", b"GLES: \n", b"GLES: alone\n", b"say GLES: A, B, OpenGL ES 3.2\n"]
)
def test_a_dump_without_that_line_tells_no_gpu(dump: bytes) -> None:
    assert parse_gles(dump) is None


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"Adreno731v1\n", "Adreno (TM) 731"),
        (b"Adreno642L\n", "Adreno (TM) 642L"),
        (b"Adreno 619\n", "Adreno (TM) 619"),
        (b"AdrenoX1-85\n", "AdrenoX1-85"),
        (b"\n", None),
    ],
)
def test_qualcomms_file_names_the_gpu(content: bytes, name: str | None) -> None:
    assert parse_kgsl_model(content) == name


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"Mali-G78 20 cores r1p1 0x90020010\n", "Mali-G78"),
        (b"Mali-G52 1 core r1p0 0x72120000", "Mali-G52"),
        (b"Mali-G720-Immortalis 10 cores r0p0 0x0C080700\n", "Mali-G720-Immortalis"),
        (b"something new\n", "something new"),
        (b"", None),
    ],
)
def test_arms_file_names_the_gpu(content: bytes, name: str | None) -> None:
    assert parse_mali_info(content) == name


GLES = b"GLES: ARM, Mali-G91, OpenGL ES 3.2 v1.r40p0\n"
VULKAN = b" ------------RE Vulkan (Graphite)----------\n"


def test_surface_flinger_speaks_first() -> None:
    assert gpu_of(GLES, b"Adreno731v1", b"Mali-G1 1 cores", {}, "") == Gpu(
        "Mali-G91", "v1.r40p0", "OpenGL ES 3.2 v1.r40p0"
    )


@pytest.mark.parametrize(
    ("renderer", "name"),
    [
        ("ANGLE (Samsung Xclipse 999) on Vulkan 1.3.1", "Samsung Xclipse 999"),
        ("ANGLE (ARM, Vulkan 1.3.1 (Mali-G91 (0xB0030000)), Mali G91-44.1.0)", "Mali-G91"),
        ("ANGLE (Qualcomm, Adreno (TM) 741, OpenGL ES 3.2)", "Adreno (TM) 741"),
        ("ANGLE", "ANGLE"),
    ],
)
def test_the_gpu_below_angle_is_named(renderer: str, name: str) -> None:
    assert gpu_of(f"GLES: Google Inc., {renderer}, OpenGL ES 3.2 ANGLE\n".encode(), None, None, {}, "").name == name


def test_without_it_files_and_then_properties_name_the_gpu() -> None:
    why = "SurfaceFlinger draws with Vulkan and names no OpenGL driver"
    nulls = {"driver": why, "gles": why}
    assert gpu_of(VULKAN, b"Adreno731v1", None, {}, "") == Gpu("Adreno (TM) 731", None, None, nulls=nulls)
    assert gpu_of(VULKAN, None, b"Mali-G78 20 cores r1p1 0x9", {}, "") == Gpu("Mali-G78", None, None, nulls=nulls)
    assert gpu_of(VULKAN, b"\n", None, {"ro.hardware.egl": "powervr"}, "") == Gpu(
        "PowerVR (model unknown)", None, None, nulls=nulls
    )
    assert gpu_of(VULKAN, None, None, {"ro.hardware.vulkan": "toyo"}, "").name == "toyo (model unknown)"


@pytest.mark.parametrize(
    ("dump", "why", "reason"),
    [
        (b"", "the phone did not answer within 10 s", "the phone did not answer within 10 s"),
        (b"Can't find service: SurfaceFlinger\n", "", "has no GLES line: Can't find service: SurfaceFlinger"),
        (b"", "", "dumpsys SurfaceFlinger has no GLES line"),
    ],
)
def test_a_gpu_that_nobody_names_has_a_reason(dump: bytes, why: str, reason: str) -> None:
    gpu = gpu_of(dump, None, None, {}, why)
    assert (gpu.name, gpu.driver, gpu.gles) == (None, None, None)
    assert all(reason in gpu.nulls[name] for name in ("gpu", "driver", "gles"))


@pytest.mark.parametrize("name", ["SwiftShader Device", "llvmpipe (LLVM 15)", "Android Emulator OpenGL ES Translator"])
def test_a_renderer_on_the_cpu_is_no_gpu(name: str) -> None:
    assert gpu_of(f"GLES: Google, {name}, OpenGL ES 3.0 (1)\n".encode(), None, None, {}, "").software


@pytest.mark.parametrize(
    ("name", "vendor", "wrong"),
    [
        ("Adreno (TM) 741", "Qualcomm", False),
        ("Adreno (TM) 741", "MediaTek", True),
        ("Mali-G91", "Qualcomm", True),
        ("Immortalis-G99", "Qualcomm", True),
        ("Mali-G91", "Google", False),
        ("ANGLE (Samsung Xclipse 999) on Vulkan", "Samsung", False),
        ("ANGLE (Samsung Xclipse 999) on Vulkan", "Qualcomm", True),
        ("Maleoon 1", "HiSilicon", False),
        ("Toyo", "Qualcomm", False),
    ],
)
def test_some_gpus_are_in_one_makers_chips_only(name: str, vendor: str, wrong: bool) -> None:
    assert gpu_contradicts(name, vendor) is wrong
