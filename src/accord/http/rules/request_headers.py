"""The headers of a request that stands on its own, taken from its body."""

from collections.abc import Callable
from functools import lru_cache
from typing import Final

import msgspec

from accord.protocol.exchange import META_VERSION
from accord.protocol.mirroring import (
    METHOD_HEADER,
    NAME_HEADER,
    NAME_MEMBERS,
    MirroredArgument,
    encode_header,
    mirror_arguments,
)


class _Meta(msgspec.Struct):
    version: str | None = msgspec.field(name=META_VERSION, default=None)


class _Params(msgspec.Struct):
    meta: _Meta | None = msgspec.field(name="_meta", default=None)
    name: str | None = None
    uri: str | None = None
    task_id: str | None = msgspec.field(name="taskId", default=None)
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


class _Request(msgspec.Struct):
    method: str
    params: _Params = msgspec.field(default_factory=_Params)


_decode: Final = msgspec.json.Decoder(_Request).decode
# There are few methods, and one of them is in every request.
_encode_method: Final = lru_cache(maxsize=64)(encode_header)
_ATTRIBUTES: Final = {"name": "name", "uri": "uri", "taskId": "task_id"}


def request_headers(
    data: bytes, find_mirrored: Callable[[str], tuple[MirroredArgument, ...]]
) -> dict[str, str]:
    """Return the headers that repeat parts of a request of our own.

    Args:
        data: the request.
        find_mirrored: returns the arguments of a tool that headers repeat, by its name.
    """
    request = _decode(data)
    params = request.params
    # http.headers.mcp-method
    headers = {METHOD_HEADER: _encode_method(request.method)}
    if params.meta is not None and params.meta.version is not None:
        # http.version-header.matches-meta
        headers["MCP-Protocol-Version"] = params.meta.version
    member = NAME_MEMBERS.get(request.method)
    name = None if member is None else getattr(params, _ATTRIBUTES[member])
    if name is None:
        return headers
    headers[NAME_HEADER] = encode_header(name)  # http.headers.mcp-name
    if request.method == "tools/call" and (mirrored := find_mirrored(name)):
        headers |= mirror_arguments(mirrored, msgspec.json.decode(params.arguments))
    return headers
