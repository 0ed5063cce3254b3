"""Tests of servers: a client with a monitor on the wire, recordings, snapshots, virtual time.

The pytest plugin (`accord.testing.plugin`) offers the same as fixtures. Nothing here needs pytest.
"""

from importlib import import_module
from typing import TYPE_CHECKING
from warnings import warn

if TYPE_CHECKING:
    from accord.testing.catalog import CatalogChanged, catalog_of, check_catalog
    from accord.testing.clock import run_in_virtual_time
    from accord.testing.connection import Connected, connected, unattended
    from accord.testing.recording import ProtocolBroken, Recording, TappedWire

__all__ = [
    "CatalogChanged",
    "Connected",
    "ProtocolBroken",
    "Recording",
    "TappedWire",
    "catalog_of",
    "check_catalog",
    "connected",
    "run_in_virtual_time",
    "unattended",
]

_HOMES = {
    "clock": ("run_in_virtual_time",),
    "connection": ("Connected", "connected", "unattended"),
    "recording": ("ProtocolBroken", "Recording", "TappedWire"),
    "catalog": ("CatalogChanged", "check_catalog", "catalog_of"),
}

# Names of 0.2, until 0.4.
_FORMER = {
    "SurfaceChanged": "CatalogChanged",
    "check_surface": "check_catalog",
    "surface_of": "catalog_of",
}


def __getattr__(name: str) -> object:
    if name in _FORMER:
        warn(
            f"accord.testing.{name} will go in 0.4; write: "
            f"from accord.testing import {_FORMER[name]}",
            DeprecationWarning,
            stacklevel=2,
        )
        return getattr(import_module(f"{__name__}.catalog"), _FORMER[name])
    # Loaded when first used: pytest imports this package in every run.
    for module, names in _HOMES.items():
        if name in names:
            value: object = getattr(import_module(f"{__name__}.{module}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
