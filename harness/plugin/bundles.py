"""Which device binaries a run has to choose from, for each phone the first that runs on it."""

from __future__ import annotations

from pathlib import Path

from harness.core.errors import ConfigError
from harness.payload.bundle import Bundle, default_bundle, read_bundle
from harness.payload.bundles_place import find_bundle, imported_bundles
from harness.plan.model import Plan
from harness.store.head import RunInfo


def bundles_of(given: str | None, head: RunInfo | None, plan: Plan) -> tuple[Bundle, ...]:
    """Return the bundle that was named; else that of the run that ``head`` began; else our own and all imported ones.

    Each is used by the plan's ``runner``; those without it are left out.

    Raises:
        ConfigError: what was named cannot be used, or nothing has the runner.
    """
    named = Path(given) if given else _of_run(head)
    if named is not None:
        bundle = read_bundle(find_bundle(str(named)))
        return (bundle if plan.runner == "auto" else bundle.with_runner(plan.runner),)
    found = [default_bundle(), *imported_bundles()]
    if plan.runner == "auto":
        return tuple(found)
    able = tuple(bundle.with_runner(plan.runner) for bundle in found if plan.runner in bundle.manifest.runners)
    if not able:
        raise ConfigError(
            f"no device binaries here have {plan.runner}", remedy="import a build of MNN: mnn-farm bins import PATH"
        )
    return able


def _of_run(head: RunInfo | None) -> Path | None:
    """Return the folder of a run's bundle, if it is still there and was not simply what there is."""
    there = Path(head.bundle.folder) if head is not None and head.bundle is not None else None
    if there is None or not there.is_dir() or there.resolve() == default_bundle().folder.root.resolve():
        return None
    return there
