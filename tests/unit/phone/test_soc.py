from __future__ import annotations

import csv

import pytest

from harness.core.resources import data_root
from harness.phone.cpu import own_core_names
from harness.phone.soc import CPU_HARDWARE, SOC_ID, Soc, find_soc, normal, own_socs

SM8550_CORES = ("Cortex-A510", "Cortex-A710", "Cortex-A715", "Cortex-X3")


def find(
    soc_id: str = "", hardware: str = "", cores: tuple[str, ...] = (), makers: tuple[int, ...] = (), **said: str
) -> Soc:
    kernel = {SOC_ID: soc_id, CPU_HARDWARE: hardware}
    return find_soc({key.replace("__", "."): value for key, value in said.items()}, kernel, cores, makers)


@pytest.mark.parametrize(
    ("said", "vendor", "name"),
    [
        # Android 12 and later
        ({"ro__soc__model": "SM8550"}, "Qualcomm", "Snapdragon 8 Gen 2"),
        ({"ro__soc__model": "sm8550-ac "}, "Qualcomm", "Snapdragon 8 Gen 2"),
        ({"ro__soc__model": "SM8750P"}, "Qualcomm", "Snapdragon 8 Elite"),
        ({"ro__soc__model": "MT6769V/CB"}, "MediaTek", "Helio G70/G80/G85/G88/G91/G92"),
        ({"ro__soc__model": "s5e9925"}, "Samsung", "Exynos 2200"),
        ({"ro__soc__model": "Exynos 2200"}, "Samsung", "Exynos 2200"),
        ({"ro__soc__model": "Exynos 2400"}, "Samsung", "Exynos 2400/2400e"),
        ({"ro__soc__model": "Google Tensor G3"}, "Google", "Tensor G3"),
        ({"ro__soc__model": "Spreadtrum SC9853I-IA"}, "Unisoc", "Spreadtrum SC9853I"),
        ({"ro__soc__model": "T616"}, "Unisoc", "Unisoc T616"),
        ({"ro__soc__model": "T820"}, "Unisoc", "Unisoc T740/T760/T770/T820"),
        # one phone, before and after an update
        ({"ro__soc__model": "GS201", "ro__board__platform": "gs201"}, "Google", "Tensor G2"),
        ({"ro__soc__model": "Tensor G2", "ro__board__platform": "gs201"}, "Google", "Tensor G2"),
        # older ones
        ({"ro__hardware__chipname": "SDM845", "ro__hardware": "qcom"}, "Qualcomm", "Snapdragon 845"),
        ({"ro__board__platform": "kona", "ro__hardware": "qcom"}, "Qualcomm", "Snapdragon 865/865+/870"),
        ({"ro__board__platform": "exynos5", "ro__hardware": "samsungexynos8890"}, "Samsung", "Exynos 8890"),
        ({"ro__board__platform": "exynos5", "ro__chipname": "exynos9810"}, "Samsung", "Exynos 9810"),
        ({"ro__board__platform": "exynos5", "ro__product__board": "universal8895"}, "Samsung", "Exynos 8895"),
        ({"ro__board__platform": "universal9820"}, "Samsung", "Exynos 9820/9825"),
        ({"ro__hardware__alter": "HiSilicon Kirin 970"}, "HiSilicon", "Kirin 970"),
        ({"ro__board__platform": "hi3660", "ro__hardware": "hi3660"}, "HiSilicon", "Kirin 960"),
        ({"ro__mediatek__platform": "MT6771", "ro__board__platform": "mt6771"}, "MediaTek", "Helio P60/P70"),
    ],
)
def test_a_chip_has_the_name_it_is_sold_by(said: dict[str, str], vendor: str, name: str) -> None:
    assert find(**said) == Soc(vendor, name)


def test_the_brand_of_a_phone_says_nothing_of_its_chip() -> None:
    said = {"ro__product__manufacturer": "HUAWEI", "ro__vendor__mediatek__platform": "MT6768"}
    assert find(**said).vendor == "MediaTek"


@pytest.mark.parametrize(
    ("said", "vendor", "why"),
    [
        (
            {"ro__board__platform": "lito"},
            "Qualcomm",
            "ro.board.platform lito is one of several chips: SM6350, SM7225, SM7250",
        ),
        (
            {"ro__board__platform": "exynos5", "ro__hardware": "samsungexynos7580"},
            "Samsung",
            "profiles/soc.csv does not know samsungexynos7580 (ro.hardware)",
        ),
        ({"ro__soc__model": "Tensor G99"}, "Google", "profiles/soc.csv does not know Tensor G99 (ro.soc.model)"),
        ({"ro__soc__model": "SM85501"}, "Qualcomm", "profiles/soc.csv does not know SM85501 (ro.soc.model)"),
        ({"ro__soc__model": "SM9999"}, "Qualcomm", "profiles/soc.csv does not know SM9999 (ro.soc.model)"),
        (
            {"ro__soc__model": "X1", "ro__soc__manufacturer": "Mediatek"},
            "MediaTek",
            "profiles/soc.csv does not know X1 (ro.soc.model)",
        ),
        ({"ro__soc__model": "X1"}, None, "profiles/soc.csv does not know X1 (ro.soc.model)"),
        (
            {"ro__hardware": "qcom", "ro__board__platform": " "},
            None,
            "the phone has no property ro.soc.model or ro.board.platform",
        ),
    ],
)
def test_a_chip_that_cannot_be_told_has_a_reason(said: dict[str, str], vendor: str | None, why: str) -> None:
    assert find(**said) == Soc(vendor, None, why)


def test_cores_tell_chips_of_one_platform_apart() -> None:
    assert find(cores=("Cortex-A73", "Kryo 2xx Silver"), ro__board__platform="bengal").why.endswith("SM4250, SM6225")
    assert find(cores=("Cortex-A53", "Exynos M1/M2"), ro__board__platform="exynos5").why.endswith(
        "exynos8890, exynos8895"
    )
    assert find(cores=("Cortex-A55", "Exynos M3"), ro__board__platform="exynos5") == Soc("Samsung", "Exynos 9810")


def test_the_kernels_number_of_a_chip_counts_more_than_a_property() -> None:
    assert find("557\n", ro__board__platform="pineapple") == Soc("Qualcomm", "Snapdragon 8 Gen 3")
    assert find("591", ro__soc__model="SM8650") == Soc(
        "Qualcomm", "Snapdragon 7+ Gen 2", "", (f"{SOC_ID} says 591, ro.soc.model says SM8650",)
    )
    assert find("999999", ro__soc__model="SM8650") == Soc("Qualcomm", "Snapdragon 8 Gen 3")


def test_the_kernels_line_of_hardware_tells_chips_of_one_platform_apart() -> None:
    line = "Qualcomm Technologies, Inc SM7250"
    assert find(hardware=line, ro__board__platform="lito") == Soc("Qualcomm", "Snapdragon 765/765G/768G")
    assert find(hardware="Qualcomm Technologies, Inc LITO", ro__soc__model="SM7225").name == "Snapdragon 750G"
    assert find(hardware="MT6893Z/CZA") == Soc("MediaTek", "Dimensity 1200/1300")
    assert find(hardware="Goldfish", ro__soc__model="SM7225").notes == ()
    assert find(hardware="MT6771V/C", ro__soc__model="SM8650") == Soc(
        "MediaTek", "Helio P60/P70", "", ("/proc/cpuinfo says MT6771V/C, ro.soc.model says SM8650",)
    )


@pytest.mark.parametrize(
    ("given", "notes"),
    [
        (
            {"ro__soc__model": "SM8550", "ro__board__platform": "mt6893"},
            ("ro.soc.model says SM8550, ro.board.platform says mt6893",),
        ),
        (
            {"ro__soc__model": "SM8550", "ro__hardware": "mt6799"},
            ("ro.soc.model says SM8550 (Qualcomm), ro.hardware says mt6799",),
        ),
        (
            {"ro__soc__model": "SM8550", "ro__soc__manufacturer": "Mediatek"},
            ("ro.soc.manufacturer says MediaTek, ro.soc.model says SM8550",),
        ),
        (
            {"ro__soc__model": "SM8550", "cores": ("Cortex-A55", "Cortex-A76")},
            (
                "a SM8550 has the cores Cortex-A510, Cortex-A710, Cortex-A715, Cortex-X3; "
                "the kernel tells Cortex-A55, Cortex-A76",
            ),
        ),
        (
            {"ro__soc__model": "SM8550", "makers": (0x41, 0x53)},
            ("ro.soc.model says SM8550 (Qualcomm), but a core is Samsung's own",),
        ),
        ({"ro__soc__model": "SM8550", "ro__soc__manufacturer": "QTI", "cores": SM8550_CORES, "makers": (0x41,)}, ()),
        ({"ro__soc__model": "SM8550", "cores": SM8550_CORES[1:]}, ()),
    ],
)
def test_what_does_not_fit_is_noted_and_the_better_word_stands(given: dict[str, str], notes: tuple[str, ...]) -> None:
    assert find(**given) == Soc("Qualcomm", "Snapdragon 8 Gen 2", "", notes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("word", "plain"),
    [
        ("Qualcomm Technologies, Inc SM8350", "sm8350"),
        ("HiSilicon Kirin 970", "kirin970"),
        ("Samsung", "samsung"),
        ("", ""),
        ("\udcff", ""),
    ],
)
def test_words_are_compared_without_the_makers_name(word: str, plain: str) -> None:
    assert normal(word) == plain


def test_the_products_table_is_whole() -> None:
    rows = own_socs()
    assert len(rows) > 100
    assert len({row.model for row in rows}) == len(rows)
    assert all(row.vendor and row.name and row.model for row in rows)
    assert {core for row in rows for core in row.cores} <= set(own_core_names().values())
    with (data_root() / "profiles" / "soc.csv").open(encoding="utf-8") as file:
        assert "tier" not in (csv.DictReader(file).fieldnames or ())
    ids = [soc_id for row in rows for soc_id in row.soc_ids]
    assert len(ids) == len(set(ids)) or {i for i in ids if ids.count(i) > 1} == {"537"}
