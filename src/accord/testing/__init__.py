"""Tests of servers: a client with a monitor on the wire, recordings, snapshots, virtual time.

The pytest plugin (`accord.testing.plugin`) offers the same as fixtures. Nothing here needs pytest.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accord.testing.authorization import unattended
    from accord.testing.clock import run_in_virtual_time
    from accord.testing.connection import Connected, TappedWire, connected
    from accord.testing.recording import ProtocolBroken, Recording
    from accord.testing.surface import SurfaceChanged, check_surface, surface_of

__all__ = [
    "Connected",
    "ProtocolBroken",
    "Recording",
    "SurfaceChanged",
    "TappedWire",
    "check_surface",
    "connected",
    "run_in_virtual_time",
    "surface_of",
    "unattended",
]

_HOMES = {
    "Connected": "connection",
    "ProtocolBroken": "recording",
    "Recording": "recording",
    "SurfaceChanged": "surface",
    "TappedWire": "connection",
    "check_surface": "surface",
    "connected": "connection",
    "run_in_virtual_time": "clock",
    "surface_of": "surface",
    "unattended": "authorization",
}


def __getattr__(name: str) -> object:
    # Loaded when first used: pytest imports this package in every run.
    if name not in _HOMES:
        raise AttributeError(f"module 'accord.testing' has no attribute {name!r}")
    value: object = getattr(import_module(f"accord.testing.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
