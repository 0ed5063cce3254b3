"""The version of accord, not of the protocol; the build reads it from here."""

from typing import Final

__version__: Final = "0.3.0.dev0"
