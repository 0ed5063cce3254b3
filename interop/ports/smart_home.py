"""A hub with lights and a television mounted in it. Original: smart_home of FastMCP."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, Literal

from androidtv.setup_async import Television, setup
from msgspec import Meta, Struct
from phue import Bridge, LightState
from phue.models import Light, ResourceIdentifier
from pydantic import BaseModel, ConfigDict, Field, model_validator

from accord import Context, Depends, Server, ToolError
from accord.types import ToolAnnotations

READ = ToolAnnotations(read_only_hint=True, open_world_hint=True)
WRITE = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=True
)


# -- lights


@asynccontextmanager
async def open_bridge(server: Server[Bridge]) -> AsyncIterator[Bridge]:
    async with Bridge("127.0.0.1", "stub") as bridge:
        yield bridge


lights = Server("Hue lights", lifespan=open_bridge, instructions="Look before you change.")


class RoomState(BaseModel):
    """What the lights of a room are set to."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)
    on: bool | None = None
    brightness: float | None = Field(default=None, ge=0, le=100, description="In percent.")
    temperature_kelvin: int | None = Field(default=None, ge=2000, le=6500, description="In kelvin.")
    xy: tuple[float, float] | None = Field(default=None, description="CIE coordinates [x, y].")
    transition_seconds: float | None = Field(default=None, ge=0, le=3600)

    @model_validator(mode="after")
    def check(self) -> "RoomState":
        self.as_light()
        return self

    def as_light(self) -> LightState:
        return LightState.model_validate(self.model_dump(exclude_none=True))


class ObservedState(Struct):
    on: bool | None
    brightness: Annotated[float | None, Meta(description="In percent.")]
    xy: tuple[float, float] | None
    temperature_kelvin: Annotated[int | None, Meta(description="Where it is valid.")]
    effect: str | None
    effect_speed: Annotated[float | None, Meta(description="From 0 to 1.")]
    effect_parameters: Annotated[dict[str, Any], Meta(description="Its color, for instance.")]


class LightInfo(Struct):
    name: str
    state: ObservedState
    connectivity: str | None
    supported_effects: list[str]
    capabilities: dict[str, Any]
    hue_details: Annotated[dict[str, Any] | None, Meta(description="With details=true.")] = None


class WriteReceipt(BaseModel):
    target_id: str
    accepted: list[ResourceIdentifier]
    status: Literal["accepted"] = "accepted"
    state_verified: Literal[False] = False
    next_step: str = (
        "Read lights in the affected room after any transition to verify observed state."
    )


def find(items: list[Any], target: str) -> Any:
    """Return the one item with an id or a name."""
    found = [each for each in items if each.id == target]
    found = found or [each for each in items if each.metadata.name == target]
    if len(found) == 1:
        return found[0]
    why = "ambiguous; use an ID" if found else "unknown; list available targets first"
    raise ToolError(f"Target {target!r} is {why}")


def describe(light: Light, connectivity: str | None, *, details: bool) -> LightInfo:
    status = (light.effects_v2 or {}).get("status", {})
    parameters = status.get("parameters", {})
    xy = (light.color or {}).get("xy")
    warmth = light.color_temperature or {}
    is_warm = warmth.get("mirek") and warmth.get("mirek_valid")
    return LightInfo(
        name=light.metadata.name,
        state=ObservedState(
            on=light.on.get("on"),
            brightness=light.dimming.get("brightness"),
            xy=(xy["x"], xy["y"]) if xy else None,
            temperature_kelvin=round(1_000_000 / warmth["mirek"]) if is_warm else None,
            effect=status.get("effect"),
            effect_speed=parameters.get("speed"),
            effect_parameters=parameters,
        ),
        connectivity=connectivity,
        supported_effects=[] if light.effects_v2 is None else light.supported_effects,
        capabilities={
            "color": light.color is not None,
            "color_gamut": (light.color or {}).get("gamut"),
            "temperature_mirek_range": warmth.get("mirek_schema"),
            "minimum_brightness": light.dimming.get("min_dim_level"),
        },
        hue_details=light.model_dump(exclude_none=True) if details else None,
    )


def owner_of(light: Light) -> str | None:
    return None if light.owner is None else light.owner.rid


@lights.tool(annotations=READ)
async def read_lights(
    ctx: Context[Bridge],
    room: str | None = None,
    details: bool = False,  # noqa: FBT001, FBT002  # an argument of clients
) -> dict[str, LightInfo]:
    """Read the lights of the house, or of a room."""
    bridge = ctx.state
    devices = None
    if room is not None:
        devices = {each.rid for each in find(await bridge.rooms(), room).children}
    links = {
        each.model_dump()["owner"]["rid"]: each.model_dump()["status"]
        for each in await bridge.resources()
        if each.type == "zigbee_connectivity"
    }
    return {
        light.id: describe(light, links.get(owner_of(light)), details=details)
        for light in await bridge.lights()
        if devices is None or owner_of(light) in devices
    }


@lights.tool(annotations=READ)
async def read_rooms(ctx: Context[Bridge]) -> dict[str, Any]:
    """Read the rooms, each with its lights."""
    known = await ctx.state.lights()
    return {
        room.id: {
            "name": room.metadata.name,
            "lights": [
                light.id
                for light in known
                if owner_of(light) in {child.rid for child in room.children}
            ],
        }
        for room in await ctx.state.rooms()
    }


@lights.tool(annotations=READ)
async def read_scenes(ctx: Context[Bridge], room: str | None = None) -> dict[str, Any]:
    """Read the scenes of the house, or of a room."""
    id = None if room is None else find(await ctx.state.rooms(), room).id
    shown = ("actions", "palette", "status", "speed", "auto_dynamic")
    return {
        scene.id: {
            "name": scene.metadata.name,
            "room_id": scene.group.rid,
            **{member: getattr(scene, member) for member in shown},
        }
        for scene in await ctx.state.scenes()
        if id in (None, scene.group.rid)
    }


@lights.tool(annotations=WRITE)
async def set_light(ctx: Context[Bridge], target: str, state: LightState) -> WriteReceipt:
    """Change one light."""
    light = find(await ctx.state.lights(), target)
    accepted = await ctx.state.set_light(light.id, state)
    return WriteReceipt(target_id=light.id, accepted=accepted)


@lights.tool(annotations=WRITE)
async def set_room(ctx: Context[Bridge], target: str, state: RoomState) -> WriteReceipt:
    """Change the lights of a room."""
    room = find(await ctx.state.rooms(), target)
    services = [each.rid for each in room.services if each.rtype == "grouped_light"]
    if len(services) != 1:
        raise ToolError("Room does not expose exactly one grouped_light service")
    accepted = await ctx.state.set_group(services[0], state.as_light())
    return WriteReceipt(target_id=room.id, accepted=accepted)


@lights.tool(annotations=WRITE)
async def activate_scene(
    ctx: Context[Bridge],
    room: str,
    scene: str,
    action: Literal["active", "dynamic_palette", "static"] = "active",
) -> WriteReceipt:
    """Begin a scene of a room."""
    id = find(await ctx.state.rooms(), room).id
    scenes = [each for each in await ctx.state.scenes() if each.group.rid == id]
    found = find(scenes, scene).id
    accepted = await ctx.state.recall_scene(found, action=action)
    return WriteReceipt(target_id=found, accepted=accepted)


# -- television


class Connection:
    """The television, which is woken by the first call."""

    def __init__(self) -> None:
        self._television: Television | None = None
        self._lock = asyncio.Lock()

    async def get(self) -> Television:
        async with self._lock:
            if self._television is None:
                self._television = await setup(host="127.0.0.1", device_class="firetv")
            if not self._television.available:
                await self._television.adb_connect(log_errors=False)
            if not self._television.available:
                raise ToolError("Fire TV at 127.0.0.1 is not reachable; is it asleep?")
            return self._television


@asynccontextmanager
async def connect_television(server: Server[Connection]) -> AsyncIterator[Connection]:
    yield Connection()


async def reach_television(ctx: Context[Connection]) -> Television:
    return await ctx.state.get()


Reached = Annotated[Television, Depends(reach_television)]
television = Server("Fire TV", lifespan=connect_television, instructions="Read the status first.")


class Status(Struct):
    available: bool
    state: str | None
    current_app: str | None
    running_apps: list[str] | None
    hdmi_input: str | None
    manufacturer: str | None
    model: str | None


class CommandReceipt(Struct):
    command: str
    accepted: bool = True
    state_verified: bool = False
    next_step: str = "Read Fire TV status to verify the observed state."


async def play(reached: Television, video: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9_-]{11}", video):
        raise ToolError("YouTube video IDs must contain 11 URL-safe characters")
    await reached.adb_shell(f"am start -d https://www.youtube.com/watch?v={video} youtube")


@television.tool(annotations=READ)
async def read_status(reached: Reached) -> Status:
    """Say what the television does."""
    state, app, apps, hdmi = await reached.update(get_running_apps=False, lazy=True)
    facts = reached.device_properties
    return Status(
        reached.available, state, app, apps, hdmi, facts.get("manufacturer"), facts.get("model")
    )


@television.tool(annotations=WRITE)
async def press_home(reached: Reached) -> CommandReceipt:
    """Go to the first page."""
    await reached.home()
    return CommandReceipt("home")


@television.tool(annotations=WRITE)
async def launch_app(package_id: str, reached: Reached) -> CommandReceipt:
    """Open an app that is installed."""
    if package_id not in reached.installed_apps:
        raise ToolError(f"Package {package_id!r} is not installed")
    await reached.launch_app(package_id)
    return CommandReceipt(f"launch_app:{package_id}")


@television.tool(annotations=WRITE)
async def play_youtube_video(video_id: str, reached: Reached) -> CommandReceipt:
    """Play a video by its id."""
    await play(reached, video_id)
    return CommandReceipt(f"play_youtube_video:{video_id}")


@television.tool(annotations=WRITE)
async def play_media(
    source: Literal["youtube"], source_id: str, url: str, title: str, reached: Reached
) -> CommandReceipt:
    """Play what another server has found."""
    await play(reached, source_id)
    return CommandReceipt(f"play_media:{source}:{source_id}")


# -- hub

server = Server("Smart home")
server.mount(lights, prefix="hue")
server.mount(television, prefix="fire_tv")

if __name__ == "__main__":
    server.run()
