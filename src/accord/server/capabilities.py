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
    from accord.server.composition.views import Views
    from accord.server.server import Server


def declare(
    server: "Server[Any]", *, is_lasting: bool, is_identified: bool | None
) -> ServerCapabilities:
    """Return the capabilities of a server, as `Server.capabilities` describes them."""
    if is_identified is None:
        is_identified = server.auth is not None or server.principal is not None
    # What comes later has to be declared now: a client asks for nothing else.
    more = any(_expects_entries(mount.source) for mount in server.mounts)
    has_tools, has_prompts = more or server.tool_entries, more or server.prompt_entries
    has_templates = more or server.resource_entries.templates
    has_resources = has_templates or server.resource_entries.fixed
    has_completions = has_prompts or has_templates
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


def _expects_entries(source: "Views") -> bool:
    """Whether a source may offer something later of which nothing is known yet."""
    return not source.is_complete or any(map(_expects_entries, source.parts()))


def _declare_tasks(*, can_list: bool) -> ServerTasksCapability:
    return ServerTasksCapability(
        list={} if can_list else None,  # tasks.security.no-list-unidentified
        cancel={},
        requests=ServerTaskRequests(tools=ToolTasks(call={})),
    )
