"""The version of accord, not of the protocol."""

from typing import Final

__version__: Final = "0.1.0"
