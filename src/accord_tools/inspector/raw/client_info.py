"""How the inspector names itself to servers, in messages that it does not send as a client."""

from typing import Final

from accord.protocol.party import META_CLIENT
from accord.types import JsonObject
from accord.version import __version__
from accord_tools.check.probing.messages import stamp

CLIENT_INFO: Final = {"name": "accord-inspect", "version": __version__}


def name_client(revision: str, params: JsonObject | None = None) -> JsonObject:
    """Return params with the `_meta` of a request that stands on its own."""
    given = {**(params or {})}
    meta = given.get("_meta")
    named = {META_CLIENT: CLIENT_INFO, **(meta if isinstance(meta, dict) else {})}
    made = stamp(revision, {**given, "_meta": named}, {})
    assert isinstance(made, dict)
    return made
