"""The one interface of what a server offers: tools, prompts, resources and resource templates.

`FunctionEntry` is the base of those that call a function of the author, one class for each kind.
What stands for another entry (of a mounted server, in a view, behind a proxy) is one class for all
kinds: it passes `answer` and `complete` on.
"""

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias

import msgspec

from accord.errors import InternalError, RequestError, ToolError, UrlElicitationRequired
from accord.protocol.exchange import Exchange
from accord.server.context import Context, current
from accord.server.questions.channels import find_questions
from accord.server.schema.signature import Signature

if TYPE_CHECKING:
    from accord.protocol.mirroring import MirroredArgument
    from accord.protocol.unknown import UnknownMembers
    from accord.server.entries.completion import Completer, InjectedCompleter
    from accord.server.hub import ListKind
    from accord.server.schema.signature import BoundArguments
    from accord.server.session import Session
    from accord.types import CompleteParams, CompleteResult


EntryKind: TypeAlias = Literal["tools", "prompts", "resources", "resource_templates"]
ENTRY_KINDS: Final[tuple[EntryKind, ...]] = (
    "tools",
    "prompts",
    "resources",
    "resource_templates",
)
LIST_OF: "Final[dict[EntryKind, ListKind]]" = {
    "tools": "tools",
    "prompts": "prompts",
    "resources": "resources",
    "resource_templates": "resources",
}
"""The list whose change concerns entries of a kind."""
_NOUNS: "Final[dict[EntryKind, str]]" = {
    "tools": "tool",
    "prompts": "prompt",
    "resources": "resource",
    "resource_templates": "resource",
}


class ToolFacts(msgspec.Struct, frozen=True):
    """What the server has to know of a tool before it is called; of other entries, nothing.

    Attributes:
        mirrored: the arguments that headers repeat over HTTP.
        task: whether calls can, or have to, become tasks.
        ask_first: whether a task begins only when the tool says so, after its questions.
        idempotent: whether a call may run again on another worker.
    """

    mirrored: "tuple[MirroredArgument, ...]" = ()
    task: Literal["optional", "required"] | None = None
    ask_first: bool = False
    idempotent: bool = False


NO_FACTS: Final = ToolFacts()


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """What a server offers: a tool, a prompt, a resource or a resource template.

    Attributes:
        key: the name or URI by which it is found; of a template, its text.
        kind: which of them it is.
        scopes: what a token must have.
        tags: the author's words for it, by which it is shown or hidden.
        function: that of the author; None where another server answers.
        facts: what is known of a tool before it is called.
        is_mounted: whether it comes from a source.
    """

    key: str
    kind: EntryKind
    scopes: frozenset[str] = frozenset()
    tags: frozenset[str] = frozenset()
    function: Callable[..., object] | None = None
    facts: ToolFacts = NO_FACTS

    is_mounted: ClassVar[bool] = False

    # -- listing

    @property
    def list_kind(self) -> "ListKind":
        """The list that it is part of."""
        return LIST_OF[self.kind]

    @property
    def label(self) -> str:
        """Names it in messages about running requests."""
        return f"{_NOUNS[self.kind]} {self.key}"

    @property
    def item(self) -> Any:
        """The description that clients see."""
        raise NotImplementedError

    @property
    def place(self) -> str:
        """Where it comes from, for messages."""
        raise NotImplementedError

    def unknown_members(self) -> "UnknownMembers | None":
        """Return members of its item that no revision defines, where another server sent them."""
        return None

    # -- access

    @property
    def is_guarded(self) -> bool:
        """Whether the server that it is mounted from shows it to some requests only."""
        return False

    def is_visible(self, session: "Session", exchange: "Exchange") -> bool:
        """Whether the server that it is mounted from lets a request see it."""
        return True

    # -- requests

    def answer(
        self,
        session: "Session",
        exchange: "Exchange",
        params: Any,
        context: "Context[Any] | None" = None,
    ) -> Any:
        """Answer a request: call the tool, fill in the prompt, read the resource.

        Args:
            session: the session that serves the request.
            exchange: the request.
            params: those of the request, by the names of the entry.
            context: that of the request, where there is one already, as within a task.

        Returns:
            The result, or what has to be awaited for it.

        Raises:
            InvalidParams: the arguments do not fit.
        """
        raise NotImplementedError

    def match(self, uri: str) -> "dict[str, str] | None":
        """Return the variables with which a template makes a URI; None if it never does."""
        return None

    @property
    def arguments(self) -> Iterable[str]:
        """The names of the arguments or variables that can be completed."""
        return ()

    async def complete(
        self, session: "Session", exchange: "Exchange", params: "CompleteParams"
    ) -> "CompleteResult":
        """Suggest values of an argument of a prompt, or of a variable of a template."""
        raise NotImplementedError

    @property
    def dependencies(self) -> Iterable[Callable[..., object]]:
        """The functions that make what it depends on."""
        return ()

    # -- changes of its contents

    @property
    def reports_changes(self) -> bool:
        """Whether clients can hear of changes of its contents."""
        return True

    def subscribe(self, session: "Session", uri: str) -> None:
        """Note that a client wants to hear of changes of a URI; sources may have to ask for them.

        Called on the loop of the session.
        """

    def unsubscribe(self, session: "Session", uri: str) -> None:
        """Note that a client wants to hear no more of a URI."""


class FunctionEntry(Entry, frozen=True, kw_only=True):
    """An entry that calls a function of the author."""

    function: Callable[..., object]
    signature: Signature

    @property
    def place(self) -> str:
        return f"at {source_location(self.function)}"

    @property
    def dependencies(self) -> Iterable[Callable[..., object]]:
        plan = self.signature.plan
        return () if plan is None else plan.functions

    async def complete(
        self, session: "Session", exchange: "Exchange", params: "CompleteParams"
    ) -> "CompleteResult":
        return await session.server.completions.complete(session, exchange, self, params)


def source_location(thing: object) -> str:
    """Return where a function is defined: file and line, or else its qualified name.

    >>> source_location(len)
    'builtins.len'
    """
    function = _innermost(thing)
    code = getattr(function, "__code__", None)
    if code is not None:
        return f"{code.co_filename}:{code.co_firstlineno}"
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}"


def _innermost(thing: object) -> object:
    """Return the function behind decorators, partials and methods."""
    for _ in range(32):
        for link in ("__wrapped__", "func", "__func__"):
            if hasattr(thing, link):
                thing = getattr(thing, link)
                break
        else:
            break
    return thing


async def call_user(
    session: "Session",
    context: Context[Any],
    entry: "FunctionEntry",
    bound: "BoundArguments",
    convert: Callable[[Any], Any],
) -> Any:
    """Call a reader or prompt of the author: on the loop if it is async, else in a thread.

    What it returns is converted in the same place: a large value takes its time.
    """
    exchange = context._exchange
    function, signature = entry.function, entry.signature
    try:
        if signature.plan is not None:
            from accord.server.injection import call_injected

            current.set(context)
            result = await call_injected(entry, session, context, bound, convert)
        elif signature.is_async:
            current.set(context)
            result = convert(await signature.call(function, bound, context))
        else:
            result = await session.run_in_thread(
                context, lambda: convert(signature.call(function, bound, context))
            )
    except UrlElicitationRequired as error:
        return require_pages(error, context)
    except ToolError as error:
        # No tool, but its author means the same: the caller should read the text.
        raise InternalError(str(error)) from error
    except BaseException as error:
        questions = find_questions(error, exchange)
        if questions is None:
            raise
        return questions
    return result if exchange.channel is None else exchange.channel.finish(result)


def require_pages(error: UrlElicitationRequired, context: Context[Any]) -> Any:
    """Return what a request is answered with that needs its user to visit pages; or raise it."""
    from accord.server.questions.url_elicitation import answer_required

    answer = answer_required(error, context)
    if isinstance(answer, RequestError):
        raise answer from error
    return answer


async def call_completer(
    session: "Session",
    exchange: Exchange,
    completer: "Completer | InjectedCompleter",
    params: "CompleteParams",
) -> object:
    """Return what a completer suggests for the text that was typed."""
    from accord.server.entries.completion import InjectedCompleter

    resolved = (params.context.arguments if params.context else None) or {}
    context = session.context(exchange, params)
    try:
        value: object
        if isinstance(completer, InjectedCompleter):
            current.set(context)
            value = await completer.suggest(session, context, params.argument.value, resolved)
        else:
            # In a thread, since an author's completer may well ask a database.
            value = await session.run_in_thread(
                context, partial(completer, params.argument.value, resolved)
            )
        return await value if isinstance(value, Awaitable) else value
    except UrlElicitationRequired as error:
        return require_pages(error, context)
