"""The URIs of a source under a prefix, so that those of two sources cannot collide."""

from collections.abc import Callable
from typing import Any

import msgspec

from accord.types import (
    CallToolResult,
    EmbeddedResource,
    GetPromptResult,
    ReadResourceResult,
    ResourceContents,
    ResourceLink,
)


class UriPrefix(msgspec.Struct, frozen=True):
    """Puts a prefix into URIs, and takes it out again.

    Args:
        prefix: the prefix.
        offers: whether the source has a resource with this URI: links in results to anything else
            stay as they are.

    >>> uris = UriPrefix("crm", lambda uri: True)
    >>> uris.outward("data://config"), uris.outward("urn:isbn:1")
    ('data://crm/config', 'crm+urn:isbn:1')
    >>> uris.inward("data://crm/config"), uris.inward("crm+urn:isbn:1")
    ('data://config', 'urn:isbn:1')
    """

    prefix: str
    offers: Callable[[str], bool]

    def outward(self, uri: str) -> str:
        """Return the URI by which clients know a resource of the source."""
        scheme, separator, rest = uri.partition("://")
        if separator:
            return f"{scheme}://{self.prefix}/{rest}"
        return f"{self.prefix}+{uri}"

    def inward(self, uri: str) -> str:
        """Return the URI by which the source knows a resource."""
        scheme, separator, rest = uri.partition("://")
        if separator and rest.startswith(f"{self.prefix}/"):
            return f"{scheme}://{rest[len(self.prefix) + 1 :]}"
        return uri.removeprefix(f"{self.prefix}+")


class UriRename(msgspec.Struct, frozen=True):
    """Gives one resource another URI; as `UriPrefix`."""

    inner: str
    outer: str

    def outward(self, uri: str) -> str:
        return self.outer if uri == self.inner else uri

    def inward(self, uri: str) -> str:
        return self.inner if uri == self.outer else uri

    def offers(self, uri: str) -> bool:
        return uri == self.inner


Uris = UriPrefix | UriRename


def map_contents(result: Any, uris: Uris) -> Any:
    """Return the contents of a resource with the URIs that clients know."""
    result = _decode(result, ReadResourceResult)
    if not isinstance(result, ReadResourceResult):
        return result
    contents = [_with_uri(each, uris.outward(each.uri)) for each in result.contents]
    return msgspec.structs.replace(result, contents=contents)


def map_tool_result(result: Any, uris: Uris) -> Any:
    """Return a result whose links to resources of the source are those that clients know."""
    result = _decode(result, CallToolResult)
    if not isinstance(result, CallToolResult):
        return result
    if not any(isinstance(each, ResourceLink | EmbeddedResource) for each in result.content):
        return result
    content = [_map_block(each, uris) for each in result.content]
    return msgspec.structs.replace(result, content=content)


def map_messages(result: Any, uris: Uris) -> Any:
    """Return the messages of a prompt with links that clients know."""
    result = _decode(result, GetPromptResult)
    if not isinstance(result, GetPromptResult):
        return result
    messages = [
        msgspec.structs.replace(each, content=_map_block(each.content, uris))
        for each in result.messages
    ]
    return msgspec.structs.replace(result, messages=messages)


def _decode(result: Any, kind: Any) -> Any:
    """Decode a result that a proxy passes as it is, if it may hold a URI."""
    if result.__class__ is bytes and b'"uri"' in result:
        return msgspec.json.decode(result, type=kind)
    return result


def _map_block(block: Any, uris: Uris) -> Any:
    if isinstance(block, ResourceLink) and uris.offers(block.uri):
        return _with_uri(block, uris.outward(block.uri))
    if isinstance(block, EmbeddedResource) and uris.offers(block.resource.uri):
        resource = _with_uri(block.resource, uris.outward(block.resource.uri))
        return msgspec.structs.replace(block, resource=resource)
    return block


def _with_uri(part: Any, uri: str) -> Any:
    assert isinstance(part, ResourceContents | ResourceLink)
    return msgspec.structs.replace(part, uri=uri)
