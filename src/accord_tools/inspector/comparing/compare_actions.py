"""The actions that compare: two results, and the revisions of one server."""

import asyncio

import msgspec

from accord_tools.inspector.actions import READ, Nothing, action
from accord_tools.inspector.comparing.differences import DIFFERENCES_MOST, find_differences
from accord_tools.inspector.comparing.revision_survey import RevisionSurvey
from accord_tools.inspector.definition import ActionRefused
from accord_tools.inspector.exports.exported_call import CallReference, ExportedCall, find_call
from accord_tools.inspector.session import InspectedSession


class CompareResults(msgspec.Struct):
    """Two calls, of this session or of the history."""

    left: CallReference
    right: CallReference


@action("compare.results", kinds=READ)
async def compare_results(session: InspectedSession, params: CompareResults) -> object:
    """Return where the answers to two calls differ."""
    left = await _find(session, params.left, "left")
    right = await _find(session, params.right, "right")
    found = await asyncio.to_thread(
        find_differences, left.response, right.response, most=DIFFERENCES_MOST + 1
    )
    return {
        "is_same": not found,
        "left": {"title": left.title},
        "right": {"title": right.title},
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
async def get_revisions(session: InspectedSession, params: Nothing) -> object:
    """Return how the server answers in each revision, as far as it was asked."""
    survey = session.part(RevisionSurvey)
    return {"state": survey.state, "rows": survey.rows}


@action("revisions.run")
async def run_revisions(session: InspectedSession, params: Nothing) -> object:
    """Begin to ask the server in each revision."""
    session.part(RevisionSurvey).start()
    return {}
