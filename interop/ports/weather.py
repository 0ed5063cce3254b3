"""Structured results of every kind. Original: weather_structured of the official SDK."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, TypedDict

from accord import Server

server = Server("Weather Service")


@dataclass
class WeatherData:
    """The weather in one place."""

    temperature: Annotated[float, "degrees Celsius"]
    humidity: Annotated[float, "percent"]
    condition: Annotated[str, "the sky, in words"]
    wind_speed: Annotated[float, "km/h"]
    location: Annotated[str, "the place"]
    timestamp: Annotated[datetime, "when it was measured"] = field(default_factory=datetime.now)


@server.tool
def get_weather(city: str) -> WeatherData:
    """Report the weather of a city in full."""
    return WeatherData(22.5, 65.0, "partly cloudy", 12.3, city)


class WeatherSummary(TypedDict):
    """The weather in short."""

    city: str
    temp_c: float
    description: str


@server.tool
def get_weather_summary(city: str) -> WeatherSummary:
    """Report the weather of a city in short."""
    return {"city": city, "temp_c": 22.5, "description": "Partly cloudy with light breeze"}


@server.tool
def get_weather_metrics(cities: list[str]) -> dict[str, dict[str, float]]:
    """Compare cities by their numbers."""
    return {
        city: {"temperature": 20.0 + 2 * i, "humidity": 60.0 + 5 * i, "pressure": 1013.0 + i / 2}
        for i, city in enumerate(cities)
    }


@dataclass
class WeatherAlert:
    """A warning."""

    severity: str
    title: str
    description: str
    affected_areas: list[str]
    valid_until: datetime


HEAT = WeatherAlert(
    "high",
    "Heat Wave Warning",
    "Temperatures expected to exceed 40 degrees",
    ["Los Angeles", "San Diego", "Riverside"],
    datetime(2024, 7, 15, 18),  # noqa: DTZ001 - local time, as the original has it
)
SMOKE = WeatherAlert(
    "medium",
    "Air Quality Advisory",
    "Poor air quality due to wildfire smoke",
    ["San Francisco Bay Area"],
    datetime(2024, 7, 14, 12),  # noqa: DTZ001
)


@server.tool
def get_weather_alerts(region: str) -> list[WeatherAlert]:
    """List the warnings for a region."""
    return [HEAT, SMOKE] if region.lower() == "california" else []


@server.tool
def get_temperature(city: str, unit: str = "celsius") -> float:
    """Say how warm it is, and nothing else."""
    return 22.5 * 9 / 5 + 32 if unit.lower() == "fahrenheit" else 22.5


@dataclass
class DailyStats:
    """The range of a day."""

    high: float
    low: float
    mean: float


@dataclass
class WeatherStats:
    """Some days in numbers."""

    location: str
    period_days: int
    temperature: DailyStats
    humidity: DailyStats
    precipitation_mm: Annotated[float, "rain of all days"]


@server.tool
def get_weather_stats(city: str, days: int = 7) -> WeatherStats:
    """Sum up the last days in a city."""
    return WeatherStats(
        city, days, DailyStats(28.5, 15.2, 21.8), DailyStats(85.0, 45.0, 65.0), 12.4
    )
