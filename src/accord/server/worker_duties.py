"""What a server does for the workers that serve together, once it is one of them."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accord.server.server import Server
    from accord.workers.worker import Worker


def join(server: "Server[Any]", worker: "Worker") -> None:
    """Let a server hear of what concerns it from other workers."""

    async def take_over(lost: str) -> None:
        await server.tasks.takeover.take_over(lost)

    worker.on_worker_lost(take_over)
    cursor_keys = worker.keys.derive("cursors of lists")
    for listing in (server.tools, server.prompts, server.resources, server.resource_templates):
        listing.share_keys(cursor_keys)
