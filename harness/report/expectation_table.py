"""``profiles/reference.csv``: what others report for a chip, a size of model and its bits. Each row names its source.

The figures stand as they were reported, whatever engine, prompt and temperature: they are good for an order of
magnitude only, and no rule about a result may rest on them.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator

from harness.core.errors import ConfigError
from harness.core.resources import data_root

Phase = Literal["prefill", "decode"]
Processor = Literal["cpu", "gpu"]

_FILE: Final = Path("profiles") / "reference.csv"
_BIG_CORE: Final = re.compile(r"Cortex-X(\d+)$")


class Reference(BaseModel):
    """What one source reports. Sizes in 10^9 parameters, for which the row speaks; speeds in tok/s.

    ``soc`` is the model of the chip as ``profiles/soc.csv`` has it, ``measured`` the year, with the month if known.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    soc: str
    params_b_low: float = Field(gt=0)
    params_b_high: float = Field(gt=0)
    quant_bits: int = Field(ge=1, le=16)
    backend: Processor
    engine: str = Field(min_length=1)
    phase: Phase
    low_tps: float = Field(gt=0)
    high_tps: float = Field(gt=0)
    source: str = Field(min_length=1)
    measured: str = Field(pattern=r"^20\d\d(-(0[1-9]|1[0-2]))?$")
    note: str

    @field_validator("soc")
    @classmethod
    def _is_known(cls, soc: str, info: ValidationInfo) -> str:
        if info.context is None or soc not in info.context["chips"]:
            raise ValueError("it has to be the model of a chip of soc.csv")
        return soc

    @model_validator(mode="after")
    def _low_is_below_high(self) -> Reference:
        if self.params_b_low > self.params_b_high or self.low_tps > self.high_tps:
            raise ValueError("a low end is above its high end")
        return self


@dataclass(frozen=True)
class Chip:
    """A chip of ``profiles/soc.csv``. ``big_core`` is the kind of its biggest core, ``None`` where nobody checked."""

    model: str
    name: str
    big_core: str | None


def load_references(path: Path, chips: frozenset[str]) -> tuple[Reference, ...]:
    """Read the table and hold every row against what it may say; ``chips`` are the models that are known.

    Raises:
        ConfigError: a row is not what it has to be; the message names file, row and column.
    """
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return tuple(_reference(row, chips, f"{path.name}:{number}") for number, row in enumerate(rows, start=2))


def _reference(row: dict[str, Any], chips: frozenset[str], where: str) -> Reference:
    try:
        return Reference.model_validate({str(key): value for key, value in row.items()}, context={"chips": chips})
    except ValidationError as error:
        first = error.errors()[0]
        column = ".".join(map(str, first["loc"])) or "the row"
        raise ConfigError(
            f"{where}: {column} is wrong: {first['msg']}", remedy="docs/history.md says what each column holds"
        ) from error


@cache
def own_chips() -> dict[str, Chip]:
    """Return the product's chips by every word that names one of them alone."""
    words: dict[str, set[str]] = {}
    chips: dict[str, Chip] = {}
    with (data_root() / "profiles" / "soc.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            chips[row["model"]] = Chip(row["model"], row["name"], _big_core(row["cores"]))
            for word in (row["model"], *row["aliases"].split(";"), *row["platforms"].split(";")):
                if word.strip():
                    words.setdefault(_plain(word), set()).add(row["model"])
    return {word: chips[next(iter(models))] for word, models in words.items() if len(models) == 1}


@cache
def chip_of(word: str) -> Chip | None:
    """Return the chip that a phone's word for its own means: ``SM8550``, ``SM8550-AB``, ``MT6899Z/CZA``."""
    chips, plain = own_chips(), _plain(word)
    variant = re.match(r"[a-z]+\d{3,}", plain)
    return chips.get(plain) or (chips.get(variant[0]) if variant else None)


@cache
def kin_of(chip: Chip) -> tuple[str, ...]:
    """Return the models of the other chips that have the same kind of biggest core."""
    if chip.big_core is None:
        return ()
    same = {other.model for other in own_chips().values() if other.big_core == chip.big_core}
    return tuple(sorted(same - {chip.model}))


@cache
def own_references() -> dict[tuple[str, str, int, str], tuple[Reference, ...]]:
    """Return the product's own table by chip, processor, bits and phase.

    Raises:
        ConfigError: a row of it is wrong.
    """
    known = frozenset(chip.model for chip in own_chips().values())
    found: dict[tuple[str, str, int, str], list[Reference]] = {}
    for row in load_references(data_root() / _FILE, known):
        found.setdefault((row.soc, row.backend, row.quant_bits, row.phase), []).append(row)
    return {key: tuple(rows) for key, rows in found.items()}


def _plain(word: str) -> str:
    return re.sub(r"[^a-z0-9]", "", word.lower())


def _big_core(cores: str) -> str | None:
    """Return the largest kind of core, e.g. ``Cortex-X4``: of the kinds that only the top of a year's chips has."""
    names = [name.strip() for name in cores.split("+")]
    if "Oryon" in names:
        return "Oryon"
    sized = [(int(match[1]), name) for name in names if (match := _BIG_CORE.match(name))]
    return max(sized)[1] if sized else None
