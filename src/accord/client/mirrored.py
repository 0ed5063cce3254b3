"""Tool arguments that HTTP headers repeat: learned from the input schemas of listed tools."""

import logging

from accord.client.link import Link
from accord.client.results import PageGuard
from accord.protocol.mirroring import mirrored_arguments
from accord.types import ListToolsResult, PageParams, Tool

log = logging.getLogger("accord.client")


def learn_headers(link: Link, page: ListToolsResult) -> None:
    """Remember which arguments headers repeat; tools with invalid annotations are left out."""
    page.tools = [tool for tool in page.tools if _learn(link, tool)]


def _learn(link: Link, tool: Tool) -> bool:
    try:
        found = mirrored_arguments(tool.input_schema)
    except ValueError as error:
        # tools.x-mcp-header.client-drops-invalid-tool, tools.x-mcp-header.client-warns
        log.warning("tool %r is left out of the list: %s", tool.name[:100], error)
        link.mirrored.pop(tool.name, None)
        return False
    if found:
        link.mirrored[tool.name] = found
    else:
        link.mirrored.pop(tool.name, None)
    return True


async def learn_anew(link: Link, name: str) -> bool:
    """List the tools again, up to the named one; return whether its headers are others now."""
    known = link.mirrored.get(name)
    pages = PageGuard("tools/list", link.settings.empty_pages)
    cursor = None
    while True:
        page: ListToolsResult = await link.fetch("tools/list", PageParams(cursor), {"fresh": True})
        learn_headers(link, page)
        cursor = page.next_cursor
        if cursor is None or any(tool.name == name for tool in page.tools):
            return link.mirrored.get(name) != known
        pages.check(page.tools, cursor)
