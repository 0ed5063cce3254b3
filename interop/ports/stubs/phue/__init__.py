"""A bridge to lights that exist in memory alone, for the original and for its port.

It has the part of the package `phue` that they use.
"""

from typing import Any, Self

from phue.models import Light, LightState, Resource, ResourceIdentifier, Room, Scene

__all__ = ["Bridge", "LightState"]

_LAMPS = (("l1", "Desk", "d1", True), ("l2", "Ceiling", "d2", False), ("l3", "Bed", "d3", True))


def _light(id: str, name: str, owner: str, has_color: bool) -> dict[str, Any]:  # noqa: FBT001
    color = {"xy": {"x": 0.3, "y": 0.4}, "gamut": {"red": {"x": 0.6, "y": 0.3}}}
    effects = {"status": {"effect": "candle", "parameters": {"speed": 0.5}}}
    return {
        "id": id,
        "type": "light",
        "owner": {"rid": owner, "rtype": "device"},
        "metadata": {"name": name},
        "on": {"on": True},
        "dimming": {"brightness": 40.0, "min_dim_level": 2.0},
        "color": color if has_color else None,
        "color_temperature": {"mirek": 250, "mirek_valid": not has_color},
        "effects_v2": effects if has_color else None,
        "supported_effects": ["no_effect", "candle"],
    }


def _room(id: str, name: str, devices: list[str]) -> dict[str, Any]:
    return {
        "id": id,
        "metadata": {"name": name},
        "children": [{"rid": each, "rtype": "device"} for each in devices],
        "services": [{"rid": f"g-{id}", "rtype": "grouped_light"}] if devices else [],
    }


def _scene(id: str, name: str, room: str) -> dict[str, Any]:
    return {
        "id": id,
        "metadata": {"name": name},
        "group": {"rid": room, "rtype": "room"},
        "actions": [{"target": {"rid": "l1", "rtype": "light"}, "action": {"on": {"on": True}}}],
        "palette": {},
        "status": {"active": "inactive"},
        "speed": 0.6,
        "auto_dynamic": False,
    }


class Bridge:
    def __init__(self, ip: str, username: str, *, verify: object = True) -> None:
        self._lights = {id: _light(id, *rest) for id, *rest in _LAMPS}
        self._is_open = False

    async def __aenter__(self) -> Self:
        self._is_open = True
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_open = False

    async def lights(self) -> list[Light]:
        assert self._is_open
        return [Light.model_validate(each) for each in self._lights.values()]

    async def rooms(self) -> list[Room]:
        rooms = (("r1", "Office", ["d1", "d2"]), ("r2", "Bedroom", ["d3"]), ("r3", "Attic", []))
        return [Room.model_validate(_room(*each)) for each in rooms]

    async def scenes(self) -> list[Scene]:
        scenes = (("s1", "Work", "r1"), ("s2", "Read", "r2"), ("s3", "Read", "r2"))
        return [Scene.model_validate(_scene(*each)) for each in scenes]

    async def resources(self) -> list[Resource]:
        owner = {"rid": "d1", "rtype": "device"}
        found = {"id": "z1", "type": "zigbee_connectivity", "owner": owner, "status": "connected"}
        return [Resource.model_validate(found)]

    async def set_light(self, id: str, state: LightState) -> list[ResourceIdentifier]:
        if state.on is not None:
            self._lights[id]["on"] = {"on": state.on}
        if state.brightness is not None:
            self._lights[id]["dimming"]["brightness"] = state.brightness
        return [ResourceIdentifier(rid=id, rtype="light")]

    async def set_group(self, id: str, state: LightState) -> list[ResourceIdentifier]:
        return [ResourceIdentifier(rid=id, rtype="grouped_light")]

    async def recall_scene(self, id: str, *, action: str) -> list[ResourceIdentifier]:
        return [ResourceIdentifier(rid=id, rtype=action)]
