"""What the phone's services are told of the phone once, at its start: the part of its description that they print."""

from __future__ import annotations

import json
import math
from typing import Any

from harness.virtual import tree, vitals
from harness.virtual.profile import Profile


def userland_spec(profile: Profile) -> dict[str, Any]:
    """Return the table that :mod:`harness.virtual.droid` reads as ``spec.json``; ``nan`` becomes ``None``."""
    thermal, gpu, battery = profile.thermal, profile.gpu, profile.battery
    return {
        "sdk": profile.build.sdk,
        "abi": {"arm64-v8a": "arm64", "armeabi-v7a": "arm"}.get(tree.host_abi(), tree.host_abi()),
        "fingerprint": profile.build.fingerprint,
        "thermal": {
            "hal": thermal.hal,
            "reports_status": thermal.reports_status,
            "lists_cooling": thermal.lists_cooling,
            "thresholds": thermal.thresholds,
            "cooling": vitals.cooling_names(profile),
            "sensors": [
                {
                    "name": sensor.name,
                    "type": sensor.type,
                    "zone": sensor.zone,
                    "value": sensor.value,
                    "limits": [None if math.isnan(limit) else limit for limit in sensor.limits_c],
                }
                for sensor in thermal.sensors
            ],
        },
        "battery": {
            "layout": battery.layout,
            "technology": battery.technology,
            "charge_ua": round(battery.charge_ma * 1000),
            "capacity_mah": battery.capacity_mah,
        },
        "gpu": {
            "vendor": gpu.vendor,
            "renderer": gpu.renderer,
            "version": gpu.version,
            "snapshot": gpu.snapshot and profile.build.sdk >= 31,
        },
        "display": {"width": gpu.width, "height": gpu.height, "density": gpu.density, "dozes": gpu.dozes},
        "data_kb": profile.data_kb,
        "now": vitals.service_state(profile, vitals.idle(profile), 0),
    }


def encode_spec(profile: Profile) -> bytes:
    """Return ``spec.json``."""
    return json.dumps(userland_spec(profile)).encode()
