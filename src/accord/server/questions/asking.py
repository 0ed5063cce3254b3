"""How the handler of a request asks the client and its user, and what it keeps of the answers."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from accord.errors import MissingCapability
from accord.protocol.exchange import Exchange
from accord.protocol.party import Peer, elicitation_modes
from accord.runtime.handlers import Unwound
from accord.server.questions.channels import Channel, missing_capability
from accord.server.schema.annotations import Choices
from accord.types import CreateMessageResult, ElicitParams, Root, TaskMetadata
from accord.types._base import JsonObject

if TYPE_CHECKING:
    from accord.server.questions.input_requests import Message, SamplingOptions
    from accord.server.questions.url_elicitation import UrlElicitation
    from accord.server.session import Session

Value = TypeVar("Value")


class AskingContext:
    """The part of a `Context` that asks: the client's model, its user, its roots."""

    __slots__ = ("_exchange", "_session")

    _session: "Session"
    _exchange: Exchange

    @property
    def _peer(self) -> Peer:
        peer = self._exchange.peer
        assert peer is not None  # every request that a server receives has one
        return peer

    async def sample(
        self,
        messages: "Message | Sequence[Message]",
        *,
        max_tokens: int = 1024,
        system_prompt: str | None = None,
        timeout: float | None = None,
        key: str | None = None,
        **options: "Unpack[SamplingOptions]",
    ) -> CreateMessageResult:
        """Ask the client's model.

        Code before the question runs again: for clients of 2026-07-28 the handler starts anew when
        the answer is there. Ask before you act, or act in `await ctx.once(key, function)`.

        Args:
            messages: text, messages, and earlier results as the model's own messages. A result
                with `tool_uses` is followed by a user message with a `ToolResultContent` for each.
            max_tokens: the longest answer.
            system_prompt: instructions for the model.
            timeout: seconds to wait; by default as long as the server waits for anything.
            key: names the question within the request, as that of `elicit`.
            options: see `SamplingOptions`: tools, temperature, preferences and others.

        Raises:
            MissingCapability: the client did not declare sampling, `sampling.tools` for tools, or
                `sampling.context` for context.
            ValueError: a tool use has no result in the next message, or a result is out of place.
            RequestError: the client or its user refused.
        """
        from accord.server.questions.input_requests import build_sampling

        params = build_sampling(
            messages, options, max_tokens=max_tokens, server=self._session.server, peer=self._peer
        )
        params.system_prompt = system_prompt
        result = await self._ask("sampling", "sampling/createMessage", params, timeout, key)
        assert isinstance(result, CreateMessageResult)
        return result

    @overload
    async def elicit(
        self,
        message: str,
        form: type[Value],
        *,
        timeout: float | None = None,
        key: str | None = None,
        task: bool = False,
    ) -> Value: ...
    @overload
    async def elicit(
        self,
        message: str,
        form: Choices | JsonObject,
        *,
        timeout: float | None = None,
        key: str | None = None,
        task: bool = False,
    ) -> Any: ...
    async def elicit(
        self,
        message: str,
        form: Any,
        *,
        timeout: float | None = None,
        key: str | None = None,
        task: bool = False,
    ) -> Any:
        """Ask the user to fill in a form, and return it.

        Code before the question runs again: for clients of 2026-07-28 the handler starts anew when
        the answer is there. Ask before you act, or act in `await ctx.once(key, function)`.

        Args:
            message: what to ask.
            form: a flat type: its fields are strings, numbers, booleans, choices of one or lists of
                choices. Or one of these alone, such as `str`. Or `Choices`, whose values may have
                titles. Or a JSON Schema written by hand; the answer is then a dictionary.
            timeout: seconds to wait; by default as long as the server waits for anything.
            key: names the question within the request, for clients of 2026-07-28; by default made
                from what is asked.
            task: whether the client may answer later, as a task; where it cannot, it answers at
                once.

        Raises:
            ElicitationRefused: the user declined or cancelled; `.action` says which. It is a
                ToolError, so a tool that does not catch it reports it to its caller.
            MissingCapability: the client did not declare elicitation by form, or its revision has
                no form for a choice of several.
        """
        from accord.server.questions.input_requests import check_accepted, refuse_later_mode
        from accord.server.schema.forms import form_of

        schema, read = form_of(form)
        params = ElicitParams(message=message, requested_schema=schema)
        if task and self._peer.revision.tasks:
            params.task = TaskMetadata()
        refuse_later_mode(params, self._peer.revision)
        result = await self._ask("elicitation", "elicitation/create", params, timeout, key)
        filled = (check_accepted(result).content or {}).items()
        return read({name: value for name, value in filled if value is not None})

    async def elicit_url(
        self, message: str, url: str, *, timeout: float | None = None, key: str | None = None
    ) -> "UrlElicitation":
        """Ask the user to visit a page, for what must not pass through the client, such as secrets.

        Code before the question runs again: for clients of 2026-07-28 the handler starts anew when
        the answer is there. Ask before you act, or act in `await ctx.once(key, function)`.

        Returns when the user has agreed to open it. What happens there is for the page to say: its
        handler calls `server.elicitation_completed(id)`, and `await elicitation.wait()` waits for
        that.

        Args:
            message: why the user should visit it.
            url: the page, by https or on this machine; `{elicitation_id}` in it becomes the id.
                No secrets or personal data: the client and its user see it.
            timeout: seconds to wait; by default as long as the server waits for anything.
            key: names the question within the request, as that of `elicit`.

        Raises:
            ElicitationRefused: the user declined or cancelled; `.action` says which.
            MissingCapability: the client did not declare `elicitation.url`, or its revision has no
                such mode.
            ValueError: the URL is not one that a client may show.
        """
        from accord.server.questions.input_requests import check_accepted, refuse_later_mode
        from accord.server.questions.url_elicitation import KEPT_PAGE, make_id, page_key

        session, id = self._session, None
        if self._peer.revision.rounds:
            # The page is the same in every round of the request, whatever its URL holds.
            key = key or page_key(message, url)
            id = await self._channel.once(f"{KEPT_PAGE}{key}", make_id, str)
        elicitations = session.server.elicitations
        elicitation = elicitations.add(message, url, session, self._exchange, id=id)
        params = elicitation.params()
        try:
            await elicitations.share(elicitation)
            refuse_later_mode(params, self._peer.revision, "elicitation by URL")
            result = await self._ask("elicitation.url", "elicitation/create", params, timeout, key)
            check_accepted(result)
        except Unwound:
            raise  # the page stays known while the question is on its way
        except BaseException:
            elicitations.discard(elicitation)
            raise
        return elicitation

    def prepare_url(self, message: str, url: str) -> "UrlElicitation":
        """Return a page to raise `UrlElicitationRequired` with: the client shows it, and retries.

        Args:
            message: why the user should visit it.
            url: as that of `elicit_url`.

        Raises:
            ValueError: the URL is not one that a client may show.
        """
        from accord.server.context import Context

        assert isinstance(self, Context)
        return self._session.server.elicitations.prepare(self, message, url)

    async def roots(self, *, timeout: float | None = None, key: str | None = None) -> list[Root]:
        """Ask which places of the user's file system matter.

        Raises:
            MissingCapability: the client did not declare roots.
        """
        result = await self._ask("roots", "roots/list", None, timeout, key)
        roots: list[Root] = result.roots
        return roots

    async def once(
        self, key: str, function: Callable[[], Any], *, result_type: type[Value] | Any = Any
    ) -> Any:
        """Call a function once for this request, however often its handler runs.

        A question may end the handler, which runs again from its start when the answer is there.
        What must not happen again, such as an order, goes through here. The result travels with the
        question and back: it has to be JSON, and the client can read it.

        Args:
            key: names the result within this request.
            function: called without arguments in the first run; may be async.
            result_type: the type to read the result as.
        """
        return await self._channel.once(key, function, result_type)

    @property
    def _channel(self) -> Channel:
        channel: Channel | None = self._exchange.channel
        if channel is None:
            channel = self._exchange.channel = self._session.channel(self._exchange)
        return channel

    async def _ask(
        self,
        capability: str,
        name: str,
        params: Any,
        timeout: float | None,
        key: str | None = None,
    ) -> Any:
        revision = self._peer.revision
        if not revision.rounds and name not in revision.requests["server"]:
            raise MissingCapability(f"{name} does not exist in revision {revision.id}")
        declared = self._peer.capabilities
        if capability not in declared:
            raise missing_capability(capability)
        # elicitation.mode.supported-only
        if capability == "elicitation" and "form" not in elicitation_modes(declared):
            raise missing_capability("elicitation.form")
        return await self._channel.ask(
            name, params, key=key, timeout=timeout or self._session.server.ask_timeout
        )
