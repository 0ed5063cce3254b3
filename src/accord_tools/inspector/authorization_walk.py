"""The authorization of a session's server, made step by step as the person asks for it."""

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from accord.auth.oauth import OAuth
from accord.auth.tokens import MemoryStore
from accord.errors import AccordError, FlowFailed
from accord.http.client.guarded import NoResponse
from accord.types import REVISION_IDS, RevisionId
from accord_tools.check.probing.target import is_older_form
from accord_tools.diagnosis.facts import AuthorizationFacts, GrantedAuth
from accord_tools.diagnosis.stages import (
    CLAUSES,
    STAGE_IDS,
    TITLES,
    Stage,
    StageFailed,
    StageId,
)
from accord_tools.diagnosis.token_facts import decode_jwt, token_facts
from accord_tools.inspector.actions import action
from accord_tools.inspector.definition import ActionRefused
from accord_tools.inspector.target_access import DEFAULT_TIMEOUT, current_target, find_secrets

if TYPE_CHECKING:
    from accord.auth.tokens import TokenGrant
    from accord_tools.inspector.session import InspectedSession


log = logging.getLogger("accord_tools.inspector")

WalkState: TypeAlias = Literal["idle", "running", "waiting", "done", "failed"]
StageFunction: TypeAlias = Callable[[AuthorizationFacts, Stage], Awaitable[None]]

# The characters of a scope (RFC 6749, section 3.3).
_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,200}")
_SCOPES_MOST: Final = 100
_TOKEN_MOST: Final = 64 * 1024
_PASTED_MOST: Final = 32 * 1024
_STDIO: Final = (
    "the server is launched by a command: authorization is for servers at a URL, and a launched "
    "server gets its credentials from its environment"
)
_CLIENT_NAME: Final = "accord inspect"
_NOT_PROTECTED: Final = (
    "a protected server answers 401; any other status does not begin authorization"
)
_OPEN: Final = (
    "the server answers without a token, so clients do not authorize. If only some requests need "
    "a token, redo from the protected resource metadata"
)


class AuthorizationWalk:
    """Authorizes as a client does, one step at a time, and keeps what each step showed.

    Tokens stay in memory; only `connect` uses them for the connection of the session.
    """

    def __init__(self, session: "InspectedSession") -> None:
        self.session = session
        self._steps = [Stage(each) for each in STAGE_IDS]
        self._task: asyncio.Task[Any] | None = None
        self._used: GrantedAuth | None = None
        self._context: AuthorizationFacts | None = None
        if session.target.url:
            target = session.target
            self._context = AuthorizationFacts(
                url=target.url,
                headers=target.headers,
                settings=_settings_of(target.auth),
                client_name=_CLIENT_NAME,
                is_older_form=is_older_form,
                timeout=target.timeout or DEFAULT_TIMEOUT,
                revision=target.revision,
                transport=target.transport,
                mark=self._mark,
            )
            for each in find_secrets(target):
                self._context.secrets.learn(each)

    async def close(self) -> None:
        """Stop waiting for the redirect."""
        await self._cancel()
        if self._context is not None:
            await self._context.stop_listening()

    def _mark(self) -> None:
        self.session.mark("authorization")

    # -- what the page shows

    def describe(self) -> dict[str, Any]:
        """Return all that the page shows; no secrets."""
        context = self._context
        if context is None:
            return {"applies": False, "reason": _STDIO, "state": "idle", "steps": [], "next": ""}
        is_open = bool(context.is_open) and self._step("resource").state == "skipped"
        is_over = context.sign_in_url is None or context.code is not None
        listener = context.listener
        return {
            "applies": not is_open,
            "reason": _OPEN if is_open else "",
            "state": self.state,
            "steps": [self._describe_step(each, context) for each in self._steps],
            "next": self._next() or "",
            "scopes": list(context.wanted_scopes()),
            "scopes_from": context.scopes_origin(),
            "redirect_uri": "" if listener is None else listener.uri,
            "sign_in_url": None if is_over else context.sign_in_url,
            "token": self._describe_token(context),
            "connected_token": self._used is not None,
            "grant": context.settings.grant,
        }

    @property
    def state(self) -> WalkState:
        """How far the walk is."""
        if self._is_running:
            context = self._context
            return "waiting" if context is not None and context.pasted is not None else "running"
        states = {each.state for each in self._steps}
        if "failed" in states:
            return "failed"
        if "todo" not in states:
            return "done"
        return "idle"

    def _describe_step(self, step: Stage, context: AuthorizationFacts) -> dict[str, Any]:
        hide = context.secrets.mask_text
        return {
            "id": step.id,
            "title": TITLES[step.id],
            "state": step.state,
            "asked": hide(step.asked),
            "came": hide(step.came),
            "change": hide(self.session.options.advise(step.change)),
            "exchanges": [
                {"request": hide(each.request), "response": hide(each.response)}
                for each in step.exchanges
            ],
            "explains": [
                [each.name, hide(each.value), hide(each.meaning)] for each in step.explains
            ],
            "clauses": _describe_clauses(step, context.revision),
        }

    def _describe_token(self, context: AuthorizationFacts) -> dict[str, Any] | None:
        if context.grant is None:
            return None
        return describe_token(context.grant.access_token, context)

    # -- what the person does

    async def take_next(self) -> None:
        """Make the next step, or the failed one again; it goes on after the return."""
        await self._go_on(1)

    async def run_all(self) -> None:
        """Make all steps that are left; they go on after the return."""
        await self._go_on(len(STAGE_IDS))

    async def _go_on(self, count: int) -> None:
        next_id = self._next()
        if next_id is not None and self._step(next_id).state == "failed":
            first = self._first_to_redo(next_id)
            count += STAGE_IDS.index(next_id) - STAGE_IDS.index(first)
            await self._reset(first)
        self._begin(count)

    def _first_to_redo(self, step: StageId) -> StageId:
        """Return where to begin so that a step can be made again with fresh facts."""
        context = self._demand_context()
        if step == "endpoints":
            return "server"  # which reads the metadata that this step judges
        is_used = context.code is None or context.is_code_used
        if step == "redirect" or (step == "token" and context.uses_code and is_used):
            return "url"  # every sign-in needs a state and a challenge of its own
        return step

    async def restart(self, step: StageId) -> None:
        """Forget a step and those after it, and make it again."""
        self._demand_context()
        done = [each.id for each in self._steps if each.state not in ("todo", "skipped")]
        needed = STAGE_IDS[: STAGE_IDS.index(step)]
        # An open server skips what follows the challenge, which may be made all the same.
        missing = [each for each in needed if self._step(each).state in ("todo", "failed")]
        if missing and step not in done:
            raise ActionRefused(f"first make the step: {TITLES[missing[0]]}", field="step")
        first = self._first_to_redo(step)
        await self._reset(first)
        self._begin(STAGE_IDS.index(step) - STAGE_IDS.index(first) + 1)

    async def choose_scopes(self, scopes: list[str]) -> None:
        """Ask for other scopes from now on; an empty list asks for those that clients choose.

        Raises:
            ActionRefused: a scope has characters that scopes cannot have.
        """
        context = self._demand_context()
        if len(scopes) > _SCOPES_MOST:
            raise ActionRefused(f"give at most {_SCOPES_MOST} scopes", field="scopes")
        for each in scopes:
            if not _SCOPE.fullmatch(each):
                raise ActionRefused(
                    f"{each[:50]!r} is not a scope: no spaces, quotes or backslashes",
                    field="scopes",
                )
        context.scopes = tuple(dict.fromkeys(scopes)) or None
        client = context.client
        is_new = client is not None and client.is_registered and bool(client.scopes)
        if is_new and client is not None and not set(context.wanted_scopes()) <= {*client.scopes}:
            await self._reset("registration")
        else:
            await self._reset("url")

    async def forget(self) -> bool:
        """Forget the tokens of the walk, and those that are stored for this server.

        Returns:
            Whether any were there.
        """
        context = self._demand_context()
        had_token = context.grant is not None
        if self._used is not None:
            self._used.grant = None
            self._used = None
        was_stored = await context.settings.forget(context.url)
        await self._reset("registration")
        return had_token or was_stored

    def accept_redirected(self, url: str) -> None:
        """Take the URL that the browser ended up at, or the code in it.

        Raises:
            ActionRefused: the walk does not wait for one, or it is empty.
        """
        context = self._demand_context()
        if context.pasted is None or context.pasted.done():
            raise ActionRefused("the walk does not wait for a redirect now", field="url")
        if not url.strip() or len(url) > _PASTED_MOST:
            raise ActionRefused("paste the URL that the browser ended up at", field="url")
        context.pasted.set_result(url)

    def connect(self) -> None:
        """Connect the session with the token of the walk.

        Raises:
            ActionRefused: there is no token yet.
        """
        context = self._demand_context()
        if context.grant is None:
            raise ActionRefused("there is no token yet: make the steps up to the token first")
        from accord_tools.inspector.live.live_connection import LiveConnection

        self._used = GrantedAuth(context.settings, context.grant, self._on_renewed)
        connection = self.session.part(LiveConnection)
        connection.use_auth(self._used)
        connection.restart()
        self._mark()

    def decode(self, token: str) -> dict[str, Any]:
        """Describe a token that the person pasted; nothing is verified, sent or kept.

        Raises:
            ActionRefused: it is empty or too long.
        """
        text = token.strip()
        text = text[7:].strip() if text[:7].lower() == "bearer " else text
        if not text or len(text) > _TOKEN_MOST:
            raise ActionRefused("paste a token", field="token")
        return describe_token(text, self._context)

    def _on_renewed(self, old: "TokenGrant", new: "TokenGrant") -> None:
        """Keep one refresh token for the walk and the connection: the old one works no more."""
        context = self._demand_context()
        context.secrets.learn(new.access_token)
        context.secrets.learn(new.refresh_token)
        if context.grant is old:
            context.grant = new
        if self._used is not None and self._used.grant is old:
            self._used.grant = new

    # -- making steps

    def _demand_context(self) -> AuthorizationFacts:
        if self._context is None:
            raise ActionRefused(_STDIO)
        return self._context

    def _step(self, id: StageId) -> Stage:
        return self._steps[STAGE_IDS.index(id)]

    @property
    def _is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    def _next(self) -> StageId | None:
        waiting = (each.id for each in self._steps if each.state in ("todo", "failed"))
        return next(waiting, None)

    def _begin(self, count: int) -> None:
        context = self._demand_context()
        if self._is_running:
            waits = context.pasted is not None
            raise ActionRefused("sign in first" if waits else "a step is being made")
        if self._next() is None:
            raise ActionRefused("all steps are made; redo one of them")
        self._task = self.session.spawn(self._make(context, count))
        self._mark()

    async def _cancel(self) -> None:
        task, self._task = self._task, None
        if task is not None and not task.done():
            task.cancel()
            await asyncio.wait([task])

    async def _reset(self, first: StageId) -> None:
        await self._cancel()
        context = self._demand_context()
        context.forget_from(first)
        for id in STAGE_IDS[STAGE_IDS.index(first) :]:
            self._steps[STAGE_IDS.index(id)] = Stage(id)
        self._mark()

    async def _make(self, context: AuthorizationFacts, count: int) -> None:
        # A person may have added headers on the page.
        context.headers = current_target(self.session).headers
        for _ in range(count):
            id = self._next()
            if id is None:
                break
            step = self._steps[STAGE_IDS.index(id)] = Stage(id, state="running")
            self._mark()
            try:
                await self._make_one(context, step)
            finally:
                if step.state == "running":
                    step.state = "todo"
                self._mark()
            if step.state == "failed":
                break

    async def _make_one(self, context: AuthorizationFacts, step: Stage) -> None:
        if step.id in ("url", "redirect") and not context.uses_code:
            step.state, step.came = "skipped", f"the grant {context.settings.grant} needs no person"
            return
        before = context.grant
        try:
            await _stages()[step.id](context, step)
        except StageFailed as error:
            _fail(step, error.asked, error.came, error.change)
        except FlowFailed as error:
            _fail(step, error.asked, error.came, error.hint)
        except NoResponse as error:
            _fail(step, "", error.reason, error.hint)
        except AccordError as error:
            _fail(step, "", str(error), "")
        except Exception as error:
            log.exception("a step of an authorization failed")
            _fail(
                step, "", f"an unexpected {type(error).__name__}", "report this as a bug of accord"
            )
        else:
            if step.state == "running":
                step.state = "done"
            if step.id == "refresh" and before is not None and context.grant is not None:
                self._on_renewed(before, context.grant)
            if step.id == "challenge" and context.is_open:
                self._skip_after(step.id)
            elif step.id == "challenge" and context.status != 401:
                change = f"{step.change or 'connect without authorization'}: {_NOT_PROTECTED}"
                _fail(step, step.asked, step.came, change)

    def _skip_after(self, id: StageId) -> None:
        for each in self._steps[STAGE_IDS.index(id) + 1 :]:
            each.state, each.came = "skipped", "the server is open to every caller"


def _fail(step: Stage, asked: str, came: str, change: str) -> None:
    step.state = "failed"
    step.asked = asked or step.asked
    step.came, step.change = came, change


def _settings_of(auth: Any) -> OAuth:
    """Return the settings of the command line; a token alone says nothing about how to get one."""
    if isinstance(auth, OAuth):
        return auth
    if auth == "oauth":
        return OAuth(client_name=_CLIENT_NAME)
    return OAuth(client_name=_CLIENT_NAME, store=MemoryStore())


def describe_token(token: str, context: AuthorizationFacts | None) -> dict[str, Any]:
    """Return what can be read in a token without its issuer; nothing is verified."""
    found = token_facts(token, None if context is None else context.resource, time.time())
    decoded = decode_jwt(token)
    return {
        "description": found.description,
        "faults": list(found.faults),
        "header": None if decoded is None else decoded[0],
        "claims": None if decoded is None else decoded[1],
    }


def _stages() -> dict[StageId, StageFunction]:
    # Loaded with the first step: most sessions need none of this.
    from accord_tools.diagnosis import discovery, tokens

    return {
        "network": discovery.check_network,
        "challenge": discovery.ask_without_token,
        "resource": discovery.find_resource,
        "server": discovery.find_server,
        "endpoints": discovery.check_endpoints,
        "registration": tokens.register_client,
        "url": tokens.make_url,
        "redirect": tokens.wait_for_redirect,
        "token": tokens.obtain_token,
        "refresh": tokens.refresh_token,
        "call": tokens.call_server,
    }


def _describe_clauses(stage: Stage, revision: RevisionId | None) -> list[dict[str, Any]]:
    """Return what the specification says of a stage, and what was seen of it.

    Args:
        stage: the stage.
        revision: the one whose text is meant; None for the newest.
    """
    from accord.protocol.catalogue import catalogue
    from accord_tools.reports.clauses import clause_of

    rows, shown = catalogue(), []
    judged = revision or REVISION_IDS[-1]
    for each in CLAUSES[stage.id]:
        if not rows[each].holds_in(judged):
            continue
        clause = clause_of(each, judged)
        verdict = "broken" if each in stage.broken else "kept" if each in stage.kept else ""
        shown.append(
            {
                "requirement": each,
                "level": clause.level,
                "party": clause.party,
                "text": clause.text,
                "mend": clause.mend,
                "url": clause.page or "",
                "verdict": verdict,
            }
        )
    return shown


@action("authorization.get")
async def get_authorization(session: "InspectedSession") -> dict[str, Any]:
    """Return the steps and what they showed."""
    return session.part(AuthorizationWalk).describe()


@action("authorization.next")
async def take_next_step(session: "InspectedSession") -> None:
    """Make the next step."""
    await session.part(AuthorizationWalk).take_next()


@action("authorization.run")
async def run_all_steps(session: "InspectedSession") -> None:
    """Make all steps that are left."""
    await session.part(AuthorizationWalk).run_all()


@action("authorization.restart")
async def restart_at_step(session: "InspectedSession", *, step: StageId) -> None:
    """Make a step again, and forget those after it."""
    await session.part(AuthorizationWalk).restart(step)


@action("authorization.scopes")
async def choose_scopes(session: "InspectedSession", *, scopes: list[str]) -> None:
    """Ask for other scopes."""
    await session.part(AuthorizationWalk).choose_scopes(scopes)


@action("authorization.forget")
async def forget_tokens(session: "InspectedSession") -> dict[str, Any]:
    """Forget all tokens for this server."""
    return {"had_token": await session.part(AuthorizationWalk).forget()}


@action("authorization.redirected")
async def take_redirect(session: "InspectedSession", *, url: str) -> None:
    """Take the URL that the browser ended up at, if it could not reach this machine."""
    session.part(AuthorizationWalk).accept_redirected(url)


@action("authorization.connect")
async def connect_with_token(session: "InspectedSession") -> None:
    """Connect the session with the token."""
    session.part(AuthorizationWalk).connect()


@action("authorization.decode")
async def decode_token(session: "InspectedSession", *, token: str) -> dict[str, Any]:
    """Show what can be read in a token."""
    return session.part(AuthorizationWalk).decode(token)
