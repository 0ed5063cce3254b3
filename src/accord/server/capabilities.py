"""What a server declares, by the kinds of entries it has."""

from typing import TYPE_CHECKING, Any

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
    from accord.server.server import Server


def declare(
    server: "Server[Any]", *, is_lasting: bool, is_identified: bool | None
) -> ServerCapabilities:
    """Return the capabilities of a server, as `Server.capabilities` describes them."""
    if is_identified is None:
        is_identified = server.auth is not None or server.principal is not None
    has_resources = server.resource_entries.fixed or server.resource_entries.templates
    has_completions = server.prompt_entries or server.resource_entries.templates
    return ServerCapabilities(
        tools=ToolsCapability(list_changed=is_lasting) if server.tool_entries else None,
        prompts=PromptsCapability(list_changed=is_lasting) if server.prompt_entries else None,
        resources=ResourcesCapability(subscribe=is_lasting, list_changed=is_lasting)
        if has_resources
        else None,
        logging={} if is_lasting else None,
        completions={} if has_completions else None,
        tasks=_declare_tasks(can_list=is_identified) if server.has_task_tools else None,
    )


def _declare_tasks(*, can_list: bool) -> ServerTasksCapability:
    return ServerTasksCapability(
        list={} if can_list else None,  # tasks.security.no-list-unidentified
        cancel={},
        requests=ServerTaskRequests(tools=ToolTasks(call={})),
    )
