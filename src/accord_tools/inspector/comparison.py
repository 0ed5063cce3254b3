"""What is compared: two results, and what one server offers in each revision."""

import asyncio
from typing import Any, Final, Literal, TypeAlias

import msgspec

from accord.client.connect import connect
from accord.errors import AccordError, ConnectFailed, RequestError
from accord.protocol.revisions import REVISIONS
from accord.testing.catalog import catalog_of
from accord.types import Implementation, JsonObject, RevisionId
from accord.version import __version__
from accord_tools.contract.lock_file import find_changes
from accord_tools.inspector.actions import READ, action
from accord_tools.inspector.definition import ActionRefused
from accord_tools.inspector.differences import DIFFERENCES_MOST, find_differences
from accord_tools.inspector.exports.exported_call import CallReference, ExportedCall, find_call
from accord_tools.inspector.history.call_history import CallHistory
from accord_tools.inspector.session import InspectedSession
from accord_tools.inspector.target_access import (
    DEFAULT_TIMEOUT,
    current_target,
    launch_environment,
    request_credentials,
)

SurveyState: TypeAlias = Literal["idle", "running", "done"]
CHANGES_MOST: Final = 200
"""The differences that are listed for each revision."""
# Seconds for one revision: the opening and all lists.
_PATIENCE: Final = 30.0
_COUNTED: Final = {
    "tools": "tools",
    "resources": "resources",
    "templates": "resourceTemplates",
    "prompts": "prompts",
}


class RevisionRow(msgspec.Struct, kw_only=True):
    """How a server answers in one revision.

    Attributes:
        state: whether it answered, refused the revision, or failed.
        detail: why not.
        server_capabilities: JSON text.
        counts: how many entries each list has.
        differences: from the newest revision that it answered in.
    """

    revision: RevisionId
    state: Literal["ok", "refused", "failed"]
    detail: str = ""
    server_capabilities: str = "{}"
    counts: dict[str, int] = {}
    differences: list[str] = []


class RevisionSurvey:
    """Asks a server in every revision.

    Attributes:
        state: of the newest survey.
        rows: what was found, the newest revision first.
    """

    def __init__(self, session: InspectedSession) -> None:
        self.state: SurveyState = "idle"
        self.rows: list[RevisionRow] = []
        self._session = session
        self._work: asyncio.Task[Any] | None = None

    def start(self) -> None:
        """Begin; returns at once.

        Raises:
            ActionRefused: it is under way.
        """
        if self.state == "running":
            raise ActionRefused("the revisions are being compared already")
        self.rows = []
        self._change("running")
        self._work = self._session.spawn(self._run())

    async def close(self) -> None:
        """End with the session."""
        if self._work is not None and not self._work.done():
            self._work.cancel()
            await asyncio.wait([self._work])

    def _change(self, state: SurveyState) -> None:
        self.state = state
        self._session.mark("revisions")

    async def _run(self) -> None:
        newest: JsonObject | None = None
        try:
            for revision in [*REVISIONS.values()][::-1]:
                row, catalog = await self._ask(revision.id)
                if catalog is not None:
                    if newest is None:
                        newest = catalog
                    else:
                        row.differences = _describe_changes(newest, catalog)
                self.rows.append(row)
                self._session.mark("revisions")
        finally:
            self._change("done")

    async def _ask(self, revision: RevisionId) -> tuple[RevisionRow, JsonObject | None]:
        hide = self._session.part(CallHistory).secrets.mask_text
        try:
            async with asyncio.timeout(_PATIENCE):
                return await self._look(revision)
        except TimeoutError:
            detail = f"no answer within {_PATIENCE:.0f} s"
            return RevisionRow(revision=revision, state="failed", detail=detail), None
        except AccordError as error:
            is_refusal = isinstance(error, ConnectFailed | RequestError)
            is_reached = not isinstance(error, ConnectFailed) or error.phase != "starting"
            state: Literal["refused", "failed"] = (
                "refused" if is_refusal and is_reached else "failed"
            )
            return RevisionRow(revision=revision, state=state, detail=hide(str(error))), None

    async def _look(self, revision: RevisionId) -> tuple[RevisionRow, JsonObject]:
        target = current_target(self._session)
        options: dict[str, Any] = {
            "revision": revision,
            "timeout": target.timeout or DEFAULT_TIMEOUT,
            "client_info": Implementation("accord-inspect", __version__),
        }
        if target.url:
            headers = {**target.headers, **await request_credentials(self._session)}
            options |= {"headers": headers or None, "transport": target.transport}
        else:
            options |= {"env": launch_environment(target), "cwd": target.cwd}
        async with connect(target.target, **options) as client:
            catalog = await catalog_of(client)
            row = RevisionRow(
                revision=revision,
                state="ok",
                server_capabilities=msgspec.json.encode(client.capabilities).decode(),
                counts={name: len(catalog.get(kind, ())) for name, kind in _COUNTED.items()},
            )
        return row, catalog


def _describe_changes(newest: JsonObject, catalog: JsonObject) -> list[str]:
    found = [each.text() for each in find_changes(newest, catalog)]
    more = len(found) - CHANGES_MOST
    return found if more <= 0 else [*found[:CHANGES_MOST], f"and {more} more"]


@action("compare.results", kinds=READ)
async def compare_results(
    session: InspectedSession, *, left: CallReference, right: CallReference
) -> object:
    """Return where the answers to two calls differ."""
    one = await _find(session, left, "left")
    other = await _find(session, right, "right")
    found = await asyncio.to_thread(
        find_differences, one.response, other.response, most=DIFFERENCES_MOST + 1
    )
    return {
        "is_same": not found,
        "left": {"title": one.title},
        "right": {"title": other.title},
        "differences": found[:DIFFERENCES_MOST],
        "is_cut": len(found) > DIFFERENCES_MOST,
    }


async def _find(session: InspectedSession, reference: CallReference, side: str) -> ExportedCall:
    if reference.call is not None and session.kind != "live":
        raise ActionRefused("a recording has no calls; name entries of the history", field=side)
    call = await find_call(session, reference)
    if not call.response:
        raise ActionRefused(f"{call.title} has no answer", field=side)
    if not call.is_complete:
        raise ActionRefused(f"the answer of {call.title} was too long to be kept whole", field=side)
    return call


@action("revisions.get", kinds=READ)
async def get_revisions(session: InspectedSession) -> object:
    """Return how the server answers in each revision, as far as it was asked."""
    survey = session.part(RevisionSurvey)
    return {"state": survey.state, "rows": survey.rows}


@action("revisions.run")
async def run_revisions(session: InspectedSession) -> None:
    """Begin to ask the server in each revision."""
    session.part(RevisionSurvey).start()
