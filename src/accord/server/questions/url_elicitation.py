"""Pages that users are asked to visit: elicitation in URL mode.

The client learns an id with each page, and is informed when the user is done there. An id is
random, belongs to one session, and is announced once. The newest pages are remembered. Where
workers serve together, each of them finds the pages of all; see `shared_pages`.
"""

import asyncio
import secrets
import threading
import weakref
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec

from accord.errors import InternalError, StoreUnavailable, UrlElicitationRequired
from accord.http.rules.addresses import host_fault, is_loopback
from accord.protocol.exchange import Exchange
from accord.types import (
    ElicitationCompleteParams,
    ElicitParams,
    InputRequiredResult,
    UrlElicitationData,
)
from accord.types._base import RequestId, lifetime_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from accord.principal import Principal
    from accord.server.context import Context
    from accord.server.session import Session
    from accord.sharing.serving.pages import SharedPages

# In a URL, the place of the id.
_PLACE: Final = "{elicitation_id}"
# 256 bits: the web page that a user opens may rely on the id being secret.
_ID_BYTES: Final = 32
# How many pages are remembered, of all callers and of one; beyond it the oldest are forgotten.
_MOST: Final = 10_000
_OWNER_MOST: Final = 1_000
COMPLETE: Final = "notifications/elicitation/complete"
KEPT_PAGE: Final = "page "
"""The keys of ids of pages among what is kept from one round to the next begin so."""


class UrlElicitation:
    """A page that a user was asked to visit.

    `Context.elicit_url` returns it, and `server.elicitations.find` finds it again by its id.

    Attributes:
        id: random, and known to the client that was asked.
        message: why the user should visit it.
        url: where it is.
        is_complete: whether the user is done with it.
        principal: the caller that asked for it. The handler of the page has to verify that the
            same user opens it, for example by a login at the page.
        session_id: the id of the client's session, where it has one over HTTP.
        is_announced: whether the client's revision has a notification for it.
    """

    session_id: str | None = None
    is_announced = False
    # Whether the same page may be asked for again by a repeated request.
    _is_repeated = False
    _session: "Callable[[], Session | None]"
    _request_id: RequestId

    def __init__(
        self, id: str, message: str, url: str, principal: "Principal | None", owner: object
    ) -> None:
        self.id = id
        self.message = message
        self.url = url
        self.principal = principal
        self.is_complete = False
        self.owner = owner
        self._session = _no_session
        self._shared: SharedPages | None = None
        self._waiting: list[asyncio.Future[None]] = []

    def belong_to(
        self, session: "Session", exchange: Exchange, shared: "SharedPages | None"
    ) -> None:
        """Inform the client of this request when the user is done."""
        self._session = weakref.ref(session)
        # Not the request itself, which holds the stream of its answer.
        self._request_id = exchange.id
        # Not what the session says: a request may stand on its own beside it.
        self.is_announced = COMPLETE in exchange.revision.notifications["server"]
        self._shared = shared
        if exchange.origin is not None:
            self.session_id = exchange.origin.facts.session_id

    def params(self) -> ElicitParams:
        """Return the page as the params of a question."""
        return ElicitParams(message=self.message, mode="url", url=self.url, elicitation_id=self.id)

    def complete(self) -> bool:
        """Inform the client that the user is done with the page. From any thread.

        Returns:
            Whether this was the first time. The client may be gone, or know no such notification.
        """
        if self.is_complete:
            return False
        if self._session is _no_session and self._shared is not None:
            self.is_complete = True
            return self._shared.complete_from_thread(self.id)
        self.finish()
        if self._shared is not None:
            self._shared.note_completed(self)
        return True

    def finish(self) -> None:
        """Let the client know in this process, which is the one that asked it."""
        self.is_complete = True
        session = self._session()
        if session is not None:
            if not self._is_repeated:
                session.server.elicitations.drop(self)
            session.run_here(self._announce, session)

    def _announce(self, session: "Session") -> None:
        for future in self._waiting:
            if not future.done():
                future.set_result(None)
        if not self.is_announced:
            return  # elicitation.url.no-elicitation-id: the repeated request shows the outcome
        within = session.endpoint.conversation.open_exchange("client", self._request_id)
        # elicitation.complete.same-client
        session.notify(COMPLETE, ElicitationCompleteParams(elicitation_id=self.id), within)

    async def wait(self) -> None:
        """Wait in a handler until `complete` is called."""
        if self.is_complete:
            return
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        try:
            await future
        finally:
            self._waiting.remove(future)

    def __repr__(self) -> str:
        # Not the id, which does not belong in logs: it identifies the user at the page.
        return f"UrlElicitation({self.message!r}, is_complete={self.is_complete})"


class UrlElicitations:
    """The pages that users of a server were asked to visit, by their ids.

    Attributes:
        shared: the pages of all workers, where several serve together.
    """

    def __init__(self) -> None:
        self._by_id: dict[str, UrlElicitation] = {}
        self._of_owner: dict[object, dict[str, None]] = {}
        # Handlers in threads prepare pages too.
        self._lock = threading.RLock()
        self.shared: SharedPages | None = None

    def add(
        self,
        message: str,
        url: str,
        session: "Session",
        exchange: Exchange,
        *,
        id: str | None = None,
    ) -> UrlElicitation:
        """Make a page for the client of a session, or return the one that it was asked for before.

        Args:
            message: why the user should visit it.
            url: where it is.
            session: the session that asks.
            exchange: the request that asks.
            id: that of the page in an earlier round of the request.

        Raises:
            ValueError: the URL is not one that a client may show.
        """
        known = None if id is None else self._by_id.get(id)
        if known is not None:
            known.belong_to(session, exchange, self.shared)
            return known
        made = self._make(message, url, session, exchange, id)
        with self._lock:
            own = self._of_owner.get(made.owner, ())
            # A caller that asks for pages without end forgets its own before those of others.
            if len(own) >= _OWNER_MOST:
                self.discard(self._by_id[next(iter(own))])
            elif len(self._by_id) >= _MOST:
                self.discard(next(iter(self._by_id.values())))
            self._of_owner.setdefault(made.owner, {})[made.id] = None
            self._by_id[made.id] = made
        return made

    def _make(
        self, message: str, url: str, session: "Session", exchange: Exchange, id: str | None
    ) -> UrlElicitation:
        made_id = id or make_id()
        principal = session.principal_of(exchange)
        place = check_url(url.replace(_PLACE, made_id))
        made = UrlElicitation(made_id, message, place, principal, principal or weakref.ref(session))
        made._is_repeated = id is not None
        made.belong_to(session, exchange, self.shared)
        made.is_complete = self.shared is not None and self.shared.is_complete(made_id)
        return made

    async def share(self, elicitation: UrlElicitation) -> None:
        """Let other workers find a page, before the client is asked to show it."""
        if self.shared is not None and not elicitation.is_complete:
            await self.shared.keep(elicitation)

    def prepare(self, context: "Context[Any]", message: str, url: str) -> UrlElicitation:
        """Make a page to raise `UrlElicitationRequired` with; in every round of a request the same.

        Raises:
            ValueError: the URL is not one that a client may show.
        """
        session, exchange, id = context._session, context._exchange, None
        method = exchange.method
        if exchange.revision.rounds and method is not None and method.may_ask:
            # A task has no rounds.
            keep = getattr(context._channel, "keep", None)
            id = keep and keep(f"{KEPT_PAGE}{page_key(message, url)}", make_id)
        made = self.add(message, url, session, exchange, id=id)
        if self.shared is not None and not made.is_complete:
            self.shared.keep_soon(made)
        return made

    def find(self, id: str) -> UrlElicitation | None:
        """Return the page of this process with this id, unless it is complete or forgotten."""
        found = self._by_id.get(id)
        return None if found is None or found.is_complete else found

    async def fetch(self, id: str) -> UrlElicitation | None:
        """Return the page with this id, of any worker, unless it is complete or forgotten.

        Raises:
            StoreUnavailable: the store of the workers does not answer.
        """
        found = self.find(id)
        if found is not None or self.shared is None:
            return found
        record = await self.shared.fetch(id)
        if record is None:
            return None
        page = UrlElicitation(id, record.message, record.url, record.principal, None)
        page._shared = self.shared
        return page

    async def complete(self, id: str) -> bool:
        """Complete a page of any worker; see `Server.complete_elicitation`."""
        found = self.find(id)
        if self.shared is None:
            return found is not None and found.complete()
        try:
            return await self.shared.complete(id)
        except StoreUnavailable:
            if found is None:
                raise
            return found.complete()

    def discard(self, elicitation: UrlElicitation) -> None:
        """Forget a page."""
        self.drop(elicitation)
        if self.shared is not None:
            self.shared.forget_soon(elicitation.id)

    def drop(self, elicitation: UrlElicitation) -> None:
        """Forget a page in this process."""
        with self._lock:
            if self._by_id.pop(elicitation.id, None) is not None:
                own = self._of_owner[elicitation.owner]
                del own[elicitation.id]
                if not own:
                    del self._of_owner[elicitation.owner]


def _no_session() -> None:
    """Return nothing: the client was asked by another worker."""


def make_id() -> str:
    """Return an id that cannot be guessed."""
    return secrets.token_urlsafe(_ID_BYTES)


def page_key(message: str, url: str = "") -> str:
    """Name the question for a page, by what its author wrote."""
    return f"page-{sha256(f'{message} {url}'.encode()).hexdigest()[:8]}"


def check_url(url: str) -> str:
    """Return a URL that a client may show to its user.

    Raises:
        ValueError: it is neither https nor http on this machine, has a user name or password in
            it, or is not a URL.
    """
    if not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("the URL has characters that must be percent-encoded")
    parts = urlsplit(url)
    host = parts.hostname or ""
    # elicitation.url.https
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(host)):
        found = f"{parts.scheme}://{host}" if host else f"{parts.scheme or url}:"
        raise ValueError(
            f"the URL {found!r:.80} has to begin with https://, or http:// and a loopback address"
        )
    if not host or (fault := host_fault(host)) is not None:
        raise ValueError(f"the host of the URL {fault if host else 'is missing'}")
    # elicitation.url.no-personal-data
    if "@" in parts.netloc:
        raise ValueError("the URL has a user name or password in it")
    try:
        _ = parts.port
    except ValueError:
        raise ValueError("the port of the URL is not a number up to 65535") from None
    return url


# -- the error that names pages


def answer_required(
    error: UrlElicitationRequired, context: "Context[Any]"
) -> UrlElicitationRequired | InternalError | InputRequiredResult:
    """Return an error of a handler in a form that its client can read.

    Where requests are answered with questions, the pages are questions. The code -32042 exists in
    one revision, for clients that declared `elicitation.url`. Others get a text that names the
    pages.
    """
    peer = context._peer
    given = [_as_params(each) for each in error.elicitations] or _read_data(error.data)
    pages = [page for page in given if page.mode == "url" and page.url and page.elicitation_id]
    if not pages:
        # elicitation.required-error.lists-elicitations
        return InternalError(f"{error.message}, but the server names no page to visit")
    if "elicitation.url" in peer.capabilities:  # elicitation.mode.supported-only
        method = context._exchange.method
        if peer.revision.rounds and method is not None and method.may_ask:
            return _ask_for_pages(pages, context)
        if peer.revision.id in lifetime_of(UrlElicitationData):
            data = msgspec.to_builtins(UrlElicitationData(pages))
            return UrlElicitationRequired(error.message, elicitations=pages, data=data)
    places = "; ".join(f"{page.message}: {page.url}" for page in pages)
    return InternalError(f"{error.message} ({places})")


def _ask_for_pages(
    pages: list[ElicitParams], context: "Context[Any]"
) -> InternalError | InputRequiredResult:
    """Answer a request with pages to visit; each time, since only its handler knows the outcome."""
    from accord.server.questions.rounds import Rounds

    rounds = context._channel
    assert isinstance(rounds, Rounds)
    refused = rounds.require_pages({page_key(page.message): page for page in pages})
    return rounds.questions() if refused is None else InternalError(str(refused))


def _as_params(given: UrlElicitation | ElicitParams) -> ElicitParams:
    return given.params() if isinstance(given, UrlElicitation) else given


def _read_data(data: object) -> list[ElicitParams]:
    """Return the pages in the data of an error, as a handler wrote it or another server sent it."""
    try:
        return msgspec.convert(data, UrlElicitationData).elicitations
    except msgspec.ValidationError:
        return []
