"""Ties the parts of a live session to its connection."""

from functools import partial
from typing import TYPE_CHECKING

from accord.client.options import ConnectOptions
from accord_tools.inspector.live.catalog import ServerCatalog
from accord_tools.inspector.live.connection import LiveConnection
from accord_tools.inspector.live.questions import AskedQuestions
from accord_tools.inspector.live.reloading import SourceWatch
from accord_tools.inspector.live.roots import DeclaredRoots
from accord_tools.inspector.live.subscriptions import WatchedResources
from accord_tools.inspector.live.task_list import TaskList

if TYPE_CHECKING:
    from accord_tools.inspector.session import InspectedSession


def wire_parts(session: "InspectedSession") -> None:
    """Register what parts need from the connection."""
    connection = session.part(LiveConnection)
    catalogs, watched = session.part(ServerCatalog), session.part(WatchedResources)
    questions, roots = session.part(AskedQuestions), session.part(DeclaredRoots)

    def note_renewal() -> None:
        connection.note = "the server lost the session; a new one was begun"
        session.mark("session")
        client = connection.current
        if client is not None:
            catalogs.fetch_all(client)

    def options() -> ConnectOptions:
        return {
            "on_sample": questions.sample,
            "on_elicit": questions.fill_in,
            "on_elicit_url": questions.visit,
            "sampling_tools": True,
            "sampling_context": True,
            "roots": roots.current,
            # The log shows the messages; without a callback some servers would send none.
            "on_log": lambda params: None,
            "on_tools_changed": lambda: catalogs.fetch("tools"),
            "on_resources_changed": catalogs.fetch_resources,
            "on_prompts_changed": lambda: catalogs.fetch("prompts"),
            "on_resource_updated": watched.note_update,
            "on_renewed": note_renewal,
        }

    connection.options.append(options)
    connection.on_task_notice.append(session.part(TaskList).take_notice)
    connection.on_ready += [catalogs.fetch_all, watched.restore]
    connection.on_ready.append(lambda client: session.mark("tasks"))
    connection.on_closed.append(catalogs.mark_stale)
    for area in ("subscriptions", "tasks"):
        connection.on_closed.append(partial(session.mark, area))
    if session.target.folders:
        session.part(SourceWatch).start()
