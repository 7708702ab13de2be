"""Which models and device binaries a run has: those that are named, else those of the run that is gone on with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from harness.core.errors import ConfigError
from harness.payload.bundle import Bundle, default_bundle, read_bundle
from harness.payload.bundle_manifest import TENSOR_RUNNERS
from harness.payload.bundles_place import find_bundle, imported_bundles
from harness.payload.models import ModelFolder, find_model, read_model, read_tensor_model
from harness.plan.model import Plan
from harness.store.head import RunInfo, Source


def models_of(plan: Plan, head: RunInfo | None) -> dict[str, ModelFolder]:
    """Return the plan's models by its names for them, from where the run that ``head`` began had them, if still there.

    Raises:
        ConfigError: one is not there, not whole or not of the plan's kind, or two are the same files.
    """
    read = read_tensor_model if plan.kind == "tensor" else read_model
    sources: Mapping[str, Source] = head.models if head is not None else {}
    models = {wanted: read(_model_path(wanted, sources.get(wanted))) for wanted in plan.models}
    if len({model.folder.hash for model in models.values()}) < len(models):
        raise ConfigError("two of the models are the same files", remedy="name each model once")
    return models


def _model_path(wanted: str, source: Source | None) -> Path:
    """Return where the run had it, if that is still there: names that are paths depend on the working folder."""
    there = Path(source.folder) if source is not None else None
    return there if there is not None and there.is_dir() else find_model(wanted)


def bundles_of(given: str | None, head: RunInfo | None, plan: Plan) -> tuple[Bundle, ...]:
    """Return the bundle that was named; else that of the run that ``head`` began; else our own and all imported ones.

    Each is used by the plan's ``runner``; those without it are left out.

    Raises:
        ConfigError: what was named cannot be used, or nothing has the runner.
    """
    named = Path(given) if given else _of_run(head)
    if named is not None:
        bundle = read_bundle(find_bundle(str(named)))
        return (used_by(bundle, plan),)
    found = [default_bundle(), *imported_bundles()]
    if plan.runner == "auto":
        return tuple(used_by(bundle, plan) for bundle in found)
    able = tuple(bundle.with_runner(plan.runner) for bundle in found if plan.runner in bundle.manifest.runners)
    if not able:
        raise ConfigError(
            f"no device binaries here have {plan.runner}", remedy="import a build of MNN: mnn-farm bins import PATH"
        )
    return able


def used_by(bundle: Bundle, plan: Plan) -> Bundle:
    """Return a bundle as a plan uses it: by the runner that it names, else by the bundle's own, if that is able.

    Raises:
        ConfigError: the bundle has no such runner.
    """
    if plan.runner != "auto":
        return bundle.with_runner(plan.runner)
    if plan.kind != "tensor" or bundle.runner in TENSOR_RUNNERS:
        return bundle
    able = next((name for name in TENSOR_RUNNERS if name in bundle.manifest.runners), None)
    return bundle if able is None else bundle.with_runner(able)


def _of_run(head: RunInfo | None) -> Path | None:
    """Return the folder of a run's bundle, if it is still there and was not simply what there is."""
    there = Path(head.bundle.folder) if head is not None and head.bundle is not None else None
    if there is None or not there.is_dir() or there.resolve() == default_bundle().folder.root.resolve():
        return None
    return there


def model_sources(models: Mapping[str, ModelFolder]) -> dict[str, Source]:
    """Return models as a run's head holds them, by the plan's names."""
    return {
        name: Source(name=model.name, hash=model.folder.hash, folder=str(model.folder.root))
        for name, model in models.items()
    }


def bundle_source(bundle: Bundle) -> Source:
    """Return a bundle as a run's head holds it."""
    return Source(name=bundle.manifest.name, hash=bundle.hash, folder=str(bundle.folder.root.resolve()))
