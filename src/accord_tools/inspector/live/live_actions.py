"""Actions of the page on a live connection: the session itself, roots, subscriptions, tasks."""

from typing import TYPE_CHECKING, Final

import msgspec

from accord.http.rules.headers import check_headers
from accord.types import REVISION_IDS, JsonObject, RevisionId
from accord_tools.inspector.actions import READ, Nothing, action
from accord_tools.inspector.definition import ActionRefused
from accord_tools.inspector.live import calls, catalog
from accord_tools.inspector.live.calls import Calls
from accord_tools.inspector.live.connection import LinkSettings, LiveConnection
from accord_tools.inspector.live.facts import live_facts, observed_facts
from accord_tools.inspector.live.questions import AskedQuestions, QuestionAnswer
from accord_tools.inspector.live.session_parts import DeclaredRoots, GivenRoot
from accord_tools.inspector.live.subscriptions import WatchedResources
from accord_tools.inspector.live.task_list import TaskList

if TYPE_CHECKING:
    from accord_tools.inspector.session import InspectedSession

# Modules whose import defines actions.
PARTS: Final = (calls, catalog)
_TIMEOUT_MOST: Final = 24 * 3600.0
_HEADERS_MOST: Final = 50


# -- the session


@action("session.get", kinds=READ)
async def get_session(session: "InspectedSession", params: Nothing) -> object:
    """Return what is known about the session."""
    if session.kind == "live":
        return live_facts(session)
    return observed_facts(session)


class ConnectParams(msgspec.Struct):
    """Settings of a new connection; those left out stay, an empty revision negotiates."""

    revision: str | msgspec.UnsetType | None = msgspec.UNSET
    timeout: float | None = None
    headers: list[tuple[str, str]] | None = None


@action("session.connect")
async def connect_session(session: "InspectedSession", params: ConnectParams) -> object:
    """Connect anew with changed settings."""
    connection = session.part(LiveConnection)
    before = connection.settings
    revision: RevisionId | None = before.revision
    if params.revision is not msgspec.UNSET:
        revision = _read_revision(params.revision)
    timeout = before.timeout if params.timeout is None else params.timeout
    if not 0 < timeout <= _TIMEOUT_MOST:
        raise ActionRefused(
            f"a timeout is above 0 and at most {_TIMEOUT_MOST:g} s", field="timeout"
        )
    headers = before.headers
    if params.headers is not None:
        headers = _read_headers(session, params.headers)
    connection.note = ""
    connection.connect(LinkSettings(revision=revision, timeout=timeout, headers=headers))
    return {}


def _read_revision(given: str | None) -> RevisionId | None:
    if not given:
        return None
    found = next((each for each in REVISION_IDS if each == given), None)
    if found is None:
        raise ActionRefused(f"the revisions are {', '.join(REVISION_IDS)}", field="revision")
    return found


def _read_headers(
    session: "InspectedSession", given: list[tuple[str, str]]
) -> tuple[tuple[str, str], ...]:
    if not session.target.url:
        raise ActionRefused("a launched server has no HTTP headers", field="headers")
    if len(given) > _HEADERS_MOST:
        raise ActionRefused(f"there may be {_HEADERS_MOST} headers at most", field="headers")
    try:
        check_headers(dict(given))
    except (TypeError, ValueError) as error:
        raise ActionRefused(str(error), field="headers") from None
    return tuple((name, value) for name, value in given)


@action("session.disconnect")
async def disconnect_session(session: "InspectedSession", params: Nothing) -> object:
    """End the connection."""
    session.part(LiveConnection).disconnect()
    return {}


@action("session.restart")
async def restart_session(session: "InspectedSession", params: Nothing) -> object:
    """Connect again; a launched server is started anew."""
    session.part(LiveConnection).restart()
    return {}


# -- questions


@action("questions.list")
async def list_questions(session: "InspectedSession", params: Nothing) -> object:
    """Return the questions that wait for a person."""
    return {"questions": session.part(AskedQuestions).snapshot()}


@action("questions.answer")
async def answer_question(session: "InspectedSession", params: QuestionAnswer) -> object:
    """Answer a question."""
    session.part(AskedQuestions).answer(params)
    return {}


@action("questions.rules")
async def list_rules(session: "InspectedSession", params: Nothing) -> object:
    """Return the standing answers."""
    return {"rules": session.part(AskedQuestions).rules.snapshot()}


class OneRule(msgspec.Struct):
    """A standing answer."""

    id: str


@action("questions.forget_rule")
async def forget_rule(session: "InspectedSession", params: OneRule) -> object:
    """End a standing answer."""
    session.part(AskedQuestions).forget_rule(params.id)
    return {}


# -- roots


@action("roots.get")
async def get_roots(session: "InspectedSession", params: Nothing) -> object:
    """Return the roots."""
    return session.part(DeclaredRoots).snapshot()


class RootsParams(msgspec.Struct):
    """The roots from now on."""

    roots: list[GivenRoot]


@action("roots.set")
async def set_roots(session: "InspectedSession", params: RootsParams) -> object:
    """Replace the roots."""
    await session.part(DeclaredRoots).change(params.roots)
    return {}


# -- subscriptions and log messages


@action("subscriptions.get")
async def get_subscriptions(session: "InspectedSession", params: Nothing) -> object:
    """Return subscriptions and the log level."""
    return session.part(WatchedResources).snapshot()


class SubscriptionParams(msgspec.Struct):
    """A resource, and whether to hear of it."""

    uri: str
    on: bool


@action("subscriptions.set")
async def set_subscription(session: "InspectedSession", params: SubscriptionParams) -> object:
    """Subscribe to a resource, or undo it."""
    await session.part(WatchedResources).change(params.uri, is_on=params.on)
    return {}


class LevelParams(msgspec.Struct):
    """The least level of log messages."""

    level: str


@action("subscriptions.level")
async def set_level(session: "InspectedSession", params: LevelParams) -> object:
    """Choose the least level of log messages."""
    await session.part(WatchedResources).choose_level(params.level)
    return {}


# -- tasks


@action("tasks.list")
async def list_tasks(session: "InspectedSession", params: Nothing) -> object:
    """Return the tasks that are known."""
    return session.part(TaskList).snapshot()


class SomeTask(msgspec.Struct):
    """A task, or all of them."""

    id: str | None = None


class OneTask(msgspec.Struct):
    """A task."""

    id: str


@action("tasks.refresh")
async def refresh_tasks(session: "InspectedSession", params: SomeTask) -> object:
    """Ask for the state of tasks."""
    await session.part(TaskList).refresh(params.id)
    return {}


@action("tasks.result")
async def fetch_task_result(session: "InspectedSession", params: OneTask) -> JsonObject:
    """Fetch the result of a task, shown as a call."""
    return {"id": session.part(Calls).task_result(params.id).id}


@action("tasks.cancel")
async def cancel_task(session: "InspectedSession", params: OneTask) -> object:
    """Cancel a task."""
    await session.part(TaskList).cancel(params.id)
    return {}
