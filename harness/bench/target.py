"""What of a phone's facts decides which device binaries it gets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.payload.bundle_manifest import Target
from harness.phone.facts import Facts


def target_of(facts: Facts) -> Target:
    """Return it, for a phone that is here."""
    return Target(tuple(facts.abis), tuple(facts.cpu_features), facts.sdk, facts.page_size, facts.python_mnn)


def target_of_member(facts: Mapping[str, Any]) -> Target:
    """Return it from the facts in a run's head, for a phone that need not be here."""
    return Target(
        tuple(facts.get("abis") or ()),
        tuple(facts.get("cpu_features") or ()),
        facts.get("sdk"),
        facts.get("page_size"),
        facts.get("python_mnn"),
    )
