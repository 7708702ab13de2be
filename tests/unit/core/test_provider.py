from __future__ import annotations

import pickle
from importlib.metadata import EntryPoint

import pytest

from harness.core import provider
from harness.core.errors import ConfigError, HarnessError


@pytest.fixture
def points(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [
        EntryPoint("toys", "types:SimpleNamespace", provider.GROUP),
        EntryPoint("broken", "harness.nowhere:Provider", provider.GROUP),
    ]
    monkeypatch.setattr(provider, "entry_points", lambda group: made if group == provider.GROUP else [])


@pytest.mark.usefixtures("points")
def test_providers_are_found_by_their_prefix() -> None:
    assert provider.provider_names() == ["broken", "toys"]
    assert type(provider.load_provider("toys")).__name__ == "SimpleNamespace"


@pytest.mark.usefixtures("points")
def test_an_unknown_prefix_is_told_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="no provider of phones is called 'toyz': known: broken, toys"):
        provider.load_provider("toyz")


@pytest.mark.usefixtures("points")
def test_a_provider_that_cannot_be_loaded_is_our_fault() -> None:
    with pytest.raises(HarnessError, match=r"provider 'broken' \(harness\.nowhere:Provider\) cannot be loaded"):
        provider.load_provider("broken")


def test_an_endpoint_crosses_process_borders() -> None:
    endpoint = provider.Endpoint("toy-1", "toys", "127.0.0.1", 6000, "S", "group", {"transport_id": "3"})
    assert pickle.loads(pickle.dumps(endpoint)) == endpoint  # noqa: S301
