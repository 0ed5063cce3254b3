"""The options behind the question mark of a store's URL."""

import math
from collections.abc import Sequence
from urllib.parse import parse_qsl

from accord.errors import ConfigurationError

__all__ = ["read_options", "read_timeout"]


def read_options(scheme: str, query: str, known: Sequence[str]) -> dict[str, str]:
    """Return the options by name.

    Raises:
        ConfigurationError: one is not known, empty, or there twice. The text shows no values.
    """
    options: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in known:
            raise ConfigurationError(
                f"unknown option {name!r} in a {scheme}: URL; it takes "
                f"{', '.join(known) or 'no options'}"
            )
        if not value:
            raise ConfigurationError(f"the option {name!r} of a {scheme}: URL has no value")
        if name in options:
            raise ConfigurationError(f"the option {name!r} is twice in a {scheme}: URL")
        options[name] = value
    return options


def read_timeout(options: dict[str, str], default: float) -> float:
    """Return the option `timeout`, in seconds.

    Raises:
        ConfigurationError: it is not a number above 0.
    """
    text = options.get("timeout")
    if text is None:
        return default
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise ConfigurationError(
            f"the option 'timeout' of a store is a number of seconds above 0, not {text!r}"
        )
    return seconds
