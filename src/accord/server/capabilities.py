"""What a server declares, by the kinds of entries it has."""

from typing import TYPE_CHECKING

from accord.types import (
    PromptsCapability,
    ResourcesCapability,
    ServerCapabilities,
    ServerTaskRequests,
    ServerTasksCapability,
    ToolsCapability,
    ToolTasks,
)

if TYPE_CHECKING:
    from accord.server.core import ServerCore
    from accord.server.sources.source import Views


def declare(
    server: "ServerCore", *, is_lasting: bool, is_identified: bool | None
) -> ServerCapabilities:
    """Return the capabilities of a server, as `Server.capabilities` describes them."""
    if is_identified is None:
        is_identified = server.auth is not None or server.principal is not None
    # What a proxy is to offer, once the other server can be reached, is not known yet.
    is_open = not _is_complete(server)
    has_tools = server.tool_entries or is_open
    has_prompts = server.prompt_entries or is_open
    has_resources = server.resource_entries.fixed or server.resource_entries.templates or is_open
    has_completions = server.prompt_entries or server.resource_entries.templates or is_open
    return ServerCapabilities(
        tools=ToolsCapability(list_changed=is_lasting) if has_tools else None,
        prompts=PromptsCapability(list_changed=is_lasting) if has_prompts else None,
        resources=ResourcesCapability(subscribe=is_lasting, list_changed=is_lasting)
        if has_resources
        else None,
        logging={} if is_lasting else None,
        completions={} if has_completions else None,
        tasks=_declare_tasks(can_list=is_identified) if server.has_task_tools else None,
    )


def _is_complete(source: "Views") -> bool:
    return source.is_complete and all(map(_is_complete, source.parts()))


def _declare_tasks(*, can_list: bool) -> ServerTasksCapability:
    return ServerTasksCapability(
        list={} if can_list else None,  # tasks.security.no-list-unidentified
        cancel={},
        requests=ServerTaskRequests(tools=ToolTasks(call={})),
    )
