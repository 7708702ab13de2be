"""Which chip a phone has: vendor, model and the name it is sold by, from ``profiles/soc.csv``.

Phones tell their chip under many names, old ones only that of its platform, which several chips may share (every Exynos
of 2015 to 2018 says ``exynos5``), and a property can be set to anything. So all that a phone says is asked, the
more exact word first; what else it says narrows the choice, or is noted as a contradiction, as are cores that this chip
does not have.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from harness.core.resources import data_root

# Where kernels tell the chip: Qualcomm's by its number, many 64-bit ones up to 4.x by a line "Hardware".
SOC_ID = "/sys/devices/soc0/soc_id"
CPU_HARDWARE = "/proc/cpuinfo"

# Properties that name the chip itself, the most exact first; ro.soc.* exist from Android 12 only.
_MODEL_KEYS = ("ro.soc.model", "ro.hardware.chipname", "ro.chipname", "ro.vendor.qti.soc_model", "ro.hardware.alter")
# Properties that name its platform, or the chip where the vendor's naming is so.
_PLATFORM_KEYS = (
    "ro.vendor.mediatek.platform", "ro.mediatek.platform", "ro.board.platform", "ro.hardware", "ro.product.board",
    "ro.vendor.qti.soc_name",
)  # fmt: skip
_VENDORS = {
    "qti": "Qualcomm", "qualcomm": "Qualcomm", "mediatek": "MediaTek", "mtk": "MediaTek", "samsung": "Samsung",
    "google": "Google", "hisilicon": "HiSilicon", "huawei": "HiSilicon", "unisoc": "Unisoc", "spreadtrum": "Unisoc",
    "xiaomi": "Xiaomi",
}  # fmt: skip
# "Qualcomm Technologies, Inc SM8350", "HiSilicon Kirin 970", "samsungexynos9810", "Unisoc ums9620"
_MAKERS_WORDS = re.compile(
    r"^(?:(?:qualcommtechnologiesinc|qualcomm|hisilicon|samsung|mediatek|unisoc|spreadtrum|google))+"
)
# Models by their letters, told where no table knows the number.
_FORMS = (
    (re.compile(r"^(?:sm|sdm|msm|apq|qcm|qcs)\d{4}|^sdm\d{3}"), "Qualcomm"),
    (re.compile(r"^mt\d{4}"), "MediaTek"),
    (re.compile(r"^(?:exynos|s5e)\d{3,4}"), "Samsung"),
    (re.compile(r"^(?:kirin|hi3|hi6)\d{3}"), "HiSilicon"),
    (re.compile(r"^(?:ums|sp|sc)\d{4}"), "Unisoc"),
    (re.compile(r"^gs\d{3}$|^tensor"), "Google"),
)
# A model's number; what follows it is a variant ("SM8750P", "MT6769V/CB", "SC9853I-IA").
_NUMBERED = re.compile(r"^[a-z]+\d{3,4}[a-z]?$")
# Cores that only this vendor puts into its chips, by implementer.
_CORE_MAKERS = {0x48: "HiSilicon", 0x51: "Qualcomm", 0x53: "Samsung"}


@dataclass(frozen=True)
class SocRow:
    """A chip. ``cores`` are the names of the kinds of core it has, empty when nobody has checked them."""

    vendor: str
    model: str
    name: str
    codes: frozenset[str]
    platforms: frozenset[str]
    soc_ids: frozenset[str]
    cores: frozenset[str]


@dataclass(frozen=True)
class Soc:
    """What is known of a phone's chip; ``why`` is the reason of a missing name, ``notes`` are contradictions."""

    vendor: str | None
    name: str | None
    why: str = ""
    notes: tuple[str, ...] = ()


# Where a phone says something of its chip, in which word, and the chips that it may be.
_Saying = tuple[str, str, list[SocRow]]


def normal(word: str) -> str:
    """Return a chip's word without what differs from phone to phone: case, blanks, the maker's name."""
    plain = re.sub(r"[^a-z0-9]", "", word.lower())
    bare = _MAKERS_WORDS.sub("", plain) or plain
    return re.sub(r"^universal(\d{4})$", r"exynos\1", bare)


def load_socs(path: Path) -> tuple[SocRow, ...]:
    """Read the table; aliases, platforms and ids are separated by ``;``, cores by ``+``."""
    with path.open(encoding="utf-8", newline="") as file:
        return tuple(
            SocRow(
                row["vendor"],
                row["model"],
                row["name"],
                frozenset(map(normal, (row["model"], row["name"].split("/")[0], *_words(row["aliases"])))),
                frozenset(normal(word) for word in _words(row["platforms"])),
                frozenset(_words(row["soc_ids"])),
                frozenset(_words(row["cores"], "+")),
            )
            for row in csv.DictReader(file)
        )


@cache
def own_socs() -> tuple[SocRow, ...]:
    """Return the product's own table."""
    return load_socs(data_root() / "profiles" / "soc.csv")


def find_soc(
    properties: Mapping[str, str],
    kernel: Mapping[str, str],
    cores: Collection[str],
    implementers: Collection[int],
    table: Sequence[SocRow] | None = None,
) -> Soc:
    """Find the phone's chip.

    Args:
        properties: of the phone.
        kernel: what its kernel says, by :data:`SOC_ID` and :data:`CPU_HARDWARE`; it counts more than properties.
        cores: names of the kinds of core that the kernel tells.
        implementers: their makers' numbers (``0x51``).
        table: of chips; the product's own by default.
    """
    rows = own_socs() if table is None else table
    said = _said(properties, kernel, rows)
    if not said:
        asked = f"{_MODEL_KEYS[0]} or {_PLATFORM_KEYS[2]}"
        return Soc(_told_vendor(properties), None, f"the phone has no property {asked}", ())
    known = [(source, word, found) for source, word, found in said if found]
    vendor = known[0][2][0].vendor if known else _vendor_of(said, properties)
    chosen, notes = _narrow(known, cores)
    told_vendor = _told_vendor(properties)
    if vendor is not None and told_vendor not in (None, vendor):
        notes.append(f"ro.soc.manufacturer says {told_vendor}, {said[0][0]} says {said[0][1]}")
    for source, word, found in said[1:]:
        if not found and vendor is not None and _form(word) not in (None, vendor):
            notes.append(f"{said[0][0]} says {said[0][1]} ({vendor}), {source} says {word}")
    for makers_number in sorted(set(implementers) & set(_CORE_MAKERS)):
        maker = _CORE_MAKERS[makers_number]
        if vendor is not None and maker != vendor:
            notes.append(f"{said[0][0]} says {said[0][1]} ({vendor}), but a core is {maker}'s own")
    # A platform's chips are no answer where the phone names another one, only one that nobody has put into the table.
    exact = [
        one
        for one in said
        if one[0] in (SOC_ID, CPU_HARDWARE, *_MODEL_KEYS, "ro.hardware") and (one[2] or _form(one[1]))
    ]
    stranger = exact[0] if exact and not exact[0][2] else None
    if stranger is not None:
        return Soc(vendor, None, _unknown(stranger), tuple(notes))
    if len({row.name for row in chosen}) == 1:
        return Soc(vendor, chosen[0].name, "", tuple(notes))
    return Soc(vendor, None, _why(said, chosen), tuple(notes))


def _narrow(known: Sequence[_Saying], cores: Collection[str]) -> tuple[list[SocRow], list[str]]:
    """Return the chips that fit everything said, and what does not fit the rest."""
    notes: list[str] = []
    chosen: list[SocRow] = list(known[0][2]) if known else []
    for source, word, found in known[1:]:
        both = [row for row in chosen if row in found]
        if both:
            chosen = both
        else:
            notes.append(f"{known[0][0]} says {known[0][1]}, {source} says {word}")
    fitting = [row for row in chosen if not row.cores or not cores or set(cores) <= row.cores]
    if chosen and not fitting:
        models = " or ".join(row.model for row in chosen)
        has = ", ".join(sorted(set().union(*(row.cores for row in chosen))))
        notes.append(f"a {models} has the cores {has}; the kernel tells {', '.join(sorted(cores))}")
    return fitting or chosen, notes


def _why(said: Sequence[_Saying], chosen: Sequence[SocRow]) -> str:
    if chosen:
        source, word, _found = next(one for one in said if one[2])
        return f"{source} {word} is one of several chips: {', '.join(sorted(row.model for row in chosen))}"
    return _unknown(said[0])


def _unknown(saying: _Saying) -> str:
    return f"profiles/soc.csv does not know {saying[1]} ({saying[0]})"


def _said(properties: Mapping[str, str], kernel: Mapping[str, str], rows: Sequence[SocRow]) -> list[_Saying]:
    """Return what the phone says of its chip: where, in which word, and the chips that it may be."""
    said: list[_Saying] = []
    soc_id, hardware = kernel.get(SOC_ID, "").strip(), kernel.get(CPU_HARDWARE, "").strip()
    if by_id := [row for row in rows if soc_id in row.soc_ids]:
        said.append((SOC_ID, soc_id, by_id))
    found = _matching(normal(hardware), rows, True)
    if found or _form(hardware):
        said.append((CPU_HARDWARE, hardware[:60], found))
    for keys, by_platform in ((_MODEL_KEYS, False), (_PLATFORM_KEYS, True)):
        for key in keys:
            word = properties.get(key, "").strip()
            if not word:
                continue
            found = _matching(normal(word), rows, by_platform)
            # Else it is "qcom", or a phone's code name: no word for a chip.
            if found or _form(word) or key in ("ro.soc.model", "ro.hardware.chipname", "ro.board.platform"):
                said.append((key, word[:60], found))
    return said


def _matching(word: str, rows: Sequence[SocRow], by_platform: bool) -> list[SocRow]:
    found = [row for row in rows if word in row.codes or (by_platform and word in row.platforms)]
    # Some say the platform's name where the chip's is asked for.
    return (
        found
        or [row for row in rows if any(_is_variant(word, code) for code in row.codes)]
        or [row for row in rows if word in row.platforms]
    )


def _is_variant(word: str, code: str) -> bool:
    return word.startswith(code) and word[len(code) :][:1].isalpha() and _NUMBERED.match(code) is not None


def _vendor_of(said: Sequence[_Saying], properties: Mapping[str, str]) -> str | None:
    by_form = (vendor for _key, word, _rows in said if (vendor := _form(word)))
    return next(by_form, None) or _told_vendor(properties)


def _form(word: str) -> str | None:
    """Return whose chips are numbered so."""
    return next((vendor for form, vendor in _FORMS if form.match(normal(word))), None)


def _told_vendor(properties: Mapping[str, str]) -> str | None:
    for key in ("ro.soc.manufacturer", "ro.hardware.soc.manufacturer"):
        word = properties.get(key, "").strip()
        if word:
            return _VENDORS.get(re.sub(r"[^a-z].*", "", word.lower()), word[:60])
    return None


def _words(cell: str, separator: str = ";") -> list[str]:
    return [word.strip() for word in cell.split(separator) if word.strip()]
