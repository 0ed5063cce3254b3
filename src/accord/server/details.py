"""What an author says of a tool, resource or prompt by keyword, held to what may be said."""

import logging
import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar, cast

import msgspec

from accord.errors import RegistrationError
from accord.keywords import refuse_unknown

__all__ = ["checked", "checked_name", "warn_about_tool"]

log = logging.getLogger("accord.server")

# tools.name.charset: what 2025-11-25 recommends and hosts insist on.
_HOST_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")

Details = TypeVar("Details", bound=Mapping[str, Any])


def checked(call: str, given: Details, kind: type[Details]) -> Details:
    """Return what was said; None says nothing, and an object may be given as a dictionary.

    Raises:
        TypeError: there is no such keyword.
        RegistrationError: a value is of the wrong type.
    """
    refuse_unknown(call, given, kind.__annotations__)
    said = {name: value for name, value in given.items() if value is not None}
    try:
        read = msgspec.convert(said, kind)
    except msgspec.ValidationError as error:
        text, _, place = str(error).partition(" - at `$.")
        where = place.rstrip("`") or "its keywords"
        text = text[:1].lower() + text[1:].replace("`", "")
        raise RegistrationError(f"{call}: {where}: {text}") from None
    for name, value in read.items():
        if isinstance(value, msgspec.Struct) and isinstance(said[name], dict):
            refuse_unknown(f"{call}: {name}", said[name], type(value).__struct_encode_fields__)
    return cast("Details", read)


def checked_name(name: str, where: str) -> str:
    """Return a name that can be called.

    Raises:
        RegistrationError: there is none.
    """
    if not name or name == "<lambda>":
        raise RegistrationError(f"{where} has no name; give name=...")
    return name


def warn_about_tool(name: str, description: str | None) -> None:
    """Log what hosts refuse in a tool, or what leaves a model without help."""
    if _HOST_NAME.fullmatch(name) is None:
        log.warning(
            "tool %r: hosts refuse this name; use 1 to 128 letters, digits, _, - and .", name
        )
    if not description:
        log.warning(
            "tool %r has no description, so models see its name alone; write a docstring", name
        )
