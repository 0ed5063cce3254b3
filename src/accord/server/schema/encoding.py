"""Values written as JSON, those of other libraries too."""

import sys
from typing import Final

import msgspec

# By name, so that none of them is loaded for a server that does not use it.
TEXT_MODULES: Final = ("pathlib", "pathlib._local", "ipaddress")


def enc_hook(value: object) -> object:
    """Encode a value of a type that msgspec does not know."""
    if type(value).__module__ in TEXT_MODULES:
        return str(value)
    if "pydantic" in sys.modules:
        from accord.server.schema import pydantic_types

        return pydantic_types.encode(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


encode: Final = msgspec.json.Encoder(enc_hook=enc_hook).encode
"""Write any supported value as compact JSON."""


def to_plain(value: object) -> object:
    """Turn a value into what its JSON would decode to."""
    plain: object = msgspec.to_builtins(value, str_keys=True, enc_hook=enc_hook)
    return plain
