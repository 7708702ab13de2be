"""A configuration as ``tiers.json`` tells it, of language models and of others."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from harness.report.tiers_tried import Configuration, ForApps
from harness.store.schema import EngineValue


class Written(BaseModel):
    """A part of the document: readers ignore what they do not know."""

    model_config = ConfigDict(
        frozen=True, extra="allow", populate_by_name=True, json_schema_serialization_defaults_required=True
    )


class ConfigurationJson(Written):
    """A model and how to run it."""

    model: str
    model_hash: str = Field(description="of every file of the model's folder")
    weight_bytes: int = Field(ge=0)
    quant_bits: int | None
    backend: str
    threads: int = Field(description="CPU threads; for a GPU, MNN's mode mask")
    precision: str
    memory: str
    affinity: str | None = Field(description="cores the threads were held to, null for any")
    engine: dict[str, EngineValue] = Field(description="further keys of the engine's configuration")
    engine_name: str
    engine_version: str | None
    runner: str = Field(description="the program that measured it")


class RecommendedJson(ConfigurationJson):
    """A configuration that is proven to keep the whole SLO."""

    apps: bool | None = Field(description="whether apps may load its backend's library; null: not known")
    apps_because: str = ""
    warnings: list[str] = Field(default_factory=list, description="what failed with history before the prompt")


class RuledOutJson(ConfigurationJson):
    """A configuration that is not to be used, and why."""

    by: list[str] = Field(description="promises that are missed, codes of verdicts, or not_known")
    because: str


def plain(configuration: Configuration) -> dict[str, Any]:
    """Return the fields of :class:`ConfigurationJson`."""
    fields = configuration._asdict()
    keys = fields.pop("keys")
    return {**fields, "engine": json.loads(keys) if keys else {}, "engine_name": configuration.engine}


def for_apps_json(apps: ForApps) -> dict[str, Any]:
    """Return the fields that say whether apps may use it."""
    return {"apps": apps.allowed, "apps_because": apps.because}
