"""The actions of the page about authorization."""

from typing import TYPE_CHECKING, Any

import msgspec

from accord_tools.inspector.actions import Nothing, action
from accord_tools.inspector.authorization.walk import AuthorizationWalk
from accord_tools.inspector.authorization.walk_step import StepId

if TYPE_CHECKING:
    from accord_tools.inspector.session import InspectedSession


class RestartParams(msgspec.Struct):
    """The step to make again."""

    step: StepId


class ScopesParams(msgspec.Struct):
    """The scopes to ask for; empty for those that clients choose."""

    scopes: list[str]


class RedirectedParams(msgspec.Struct):
    """The URL that the browser ended up at."""

    url: str


class DecodeParams(msgspec.Struct):
    """A token that the person pasted."""

    token: str


@action("authorization.get")
async def get_authorization(session: "InspectedSession", params: Nothing) -> dict[str, Any]:
    """Return the steps and what they showed."""
    return session.part(AuthorizationWalk).describe()


@action("authorization.next")
async def take_next_step(session: "InspectedSession", params: Nothing) -> dict[str, Any]:
    """Make the next step."""
    await session.part(AuthorizationWalk).take_next()
    return {}


@action("authorization.run")
async def run_all_steps(session: "InspectedSession", params: Nothing) -> dict[str, Any]:
    """Make all steps that are left."""
    await session.part(AuthorizationWalk).run_all()
    return {}


@action("authorization.restart")
async def restart_at_step(session: "InspectedSession", params: RestartParams) -> dict[str, Any]:
    """Make a step again, and forget those after it."""
    await session.part(AuthorizationWalk).restart(params.step)
    return {}


@action("authorization.scopes")
async def choose_scopes(session: "InspectedSession", params: ScopesParams) -> dict[str, Any]:
    """Ask for other scopes."""
    await session.part(AuthorizationWalk).choose_scopes(params.scopes)
    return {}


@action("authorization.forget")
async def forget_tokens(session: "InspectedSession", params: Nothing) -> dict[str, Any]:
    """Forget all tokens for this server."""
    return {"had_token": await session.part(AuthorizationWalk).forget()}


@action("authorization.redirected")
async def take_redirect(session: "InspectedSession", params: RedirectedParams) -> dict[str, Any]:
    """Take the URL that the browser ended up at, if it could not reach this machine."""
    session.part(AuthorizationWalk).accept_redirected(params.url)
    return {}


@action("authorization.connect")
async def connect_with_token(session: "InspectedSession", params: Nothing) -> dict[str, Any]:
    """Connect the session with the token."""
    session.part(AuthorizationWalk).connect()
    return {}


@action("authorization.decode")
async def decode_token(session: "InspectedSession", params: DecodeParams) -> dict[str, Any]:
    """Show what can be read in a token."""
    return session.part(AuthorizationWalk).decode(params.token)
