"""Tests of servers: a client with a monitor on the wire, recordings, snapshots, virtual time.

The pytest plugin (`accord.testing.plugin`) offers the same as fixtures. Nothing here needs pytest.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accord.testing.clock import run_in_virtual_time
    from accord.testing.connection import Connected, connected, unattended
    from accord.testing.recording import ProtocolBroken, Recording
    from accord.testing.surface import SurfaceChanged, check_surface, surface_of
    from accord.testing.tapped_wire import TappedWire

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
    "clock": ("run_in_virtual_time",),
    "connection": ("Connected", "connected", "unattended"),
    "recording": ("ProtocolBroken", "Recording"),
    "surface": ("SurfaceChanged", "check_surface", "surface_of"),
    "tapped_wire": ("TappedWire",),
}


def __getattr__(name: str) -> object:
    # Loaded when first used: pytest imports this package in every run.
    for module, names in _HOMES.items():
        if name in names:
            value: object = getattr(import_module(f"{__name__}.{module}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
