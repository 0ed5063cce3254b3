"""What the bridge returns and takes."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator


class LightState(BaseModel):
    model_config = ConfigDict(extra="forbid")

    on: bool | None = None
    brightness: float | None = Field(default=None, ge=0, le=100)
    temperature_kelvin: int | None = Field(default=None, ge=2000, le=6500)
    xy: tuple[float, float] | None = None
    transition_seconds: float | None = Field(default=None, ge=0, le=3600)
    effect: str | None = None
    effect_speed: float | None = Field(default=None, ge=0, le=1)

    @model_validator(mode="after")
    def check_members(self) -> "LightState":
        if self.xy is not None and self.temperature_kelvin is not None:
            raise ValueError("xy and temperature_kelvin exclude each other")
        if not self.model_dump(exclude_none=True):
            raise ValueError("a state sets something")
        return self


class ResourceIdentifier(BaseModel):
    rid: str
    rtype: str


class Metadata(BaseModel):
    name: str


class Resource(BaseModel):
    model_config = ConfigDict(extra="allow")

    id: str
    type: str = ""


class Light(Resource):
    owner: ResourceIdentifier | None
    metadata: Metadata
    on: dict[str, Any]
    dimming: dict[str, Any]
    color: dict[str, Any] | None
    color_temperature: dict[str, Any] | None
    effects_v2: dict[str, Any] | None
    supported_effects: list[str]


class Room(Resource):
    metadata: Metadata
    children: list[ResourceIdentifier]
    services: list[ResourceIdentifier]


class Scene(Resource):
    metadata: Metadata
    group: ResourceIdentifier
    actions: list[dict[str, Any]]
    palette: dict[str, Any]
    status: dict[str, Any]
    speed: float
    auto_dynamic: bool
