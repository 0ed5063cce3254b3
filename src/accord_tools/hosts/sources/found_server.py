"""A server that was found or imported, before it is written into a file."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec


class FoundServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server, and what is known about it.

    Attributes:
        name: a name for it; made unique before it is written.
        entry: its members in `mcpServers`.
        source: where it was found, for people.
        settings: its table `[server.NAME]`.
        remarks: what could not be taken over, and what to do.
        files: new files beside the fleet file, by their path.
        variables: those that have to be set before it runs.
    """

    name: str
    entry: Mapping[str, Any]
    source: str = ""
    settings: Mapping[str, Any] = {}
    remarks: tuple[str, ...] = ()
    files: Mapping[str, str] = {}
    variables: tuple[str, ...] = ()


def plain_name(text: str) -> str:
    """Return a short name for a server, made of letters, digits, dashes, dots and underscores.

    >>> plain_name("@scope/My Server")
    'my-server'
    """
    last = text.rstrip("/").rpartition("/")[2]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", last).strip("-._").lower()[:60] or "server"


def map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return a value of JSON with every text in it changed; keys stay."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [map_texts(each, change) for each in value]
    if isinstance(value, Mapping):
        return {str(key): map_texts(each, change) for key, each in value.items()}
    return value
