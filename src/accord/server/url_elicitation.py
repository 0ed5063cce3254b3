"""Pages that users are asked to visit: elicitation in URL mode.

The client learns an id with each page, and is informed when the user is done there. An id is
random, belongs to one session, and is announced once. The newest pages are remembered.
"""

import asyncio
import secrets
import threading
import weakref
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec

from accord.bindings.addresses import host_fault, is_loopback
from accord.errors import InternalError, UrlElicitationRequired
from accord.protocol.exchange import Exchange
from accord.types import (
    ElicitationCompleteParams,
    ElicitParams,
    InputRequiredResult,
    UrlElicitationData,
)
from accord.types._base import lifetime_of

if TYPE_CHECKING:
    from accord.principal import Principal
    from accord.server.context import Context
    from accord.server.session import Session

# In a URL, the place of the id.
_PLACE: Final = "{elicitation_id}"
# 256 bits: the web page that a user opens may rely on the id being secret.
_ID_BYTES: Final = 32
# How many pages are remembered, of all callers and of one; beyond it the oldest are forgotten.
_MOST: Final = 10_000
_OWNER_MOST: Final = 1_000
_COMPLETE: Final = "notifications/elicitation/complete"


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
    """

    def __init__(
        self, message: str, url: str, session: "Session", exchange: Exchange, id: str | None = None
    ) -> None:
        self.id = id or make_id()
        self.message = message
        self.url = check_url(url.replace(_PLACE, self.id))
        self.principal: Principal | None = session.principal_of(exchange)
        self.is_complete = False
        self.owner = self.principal or weakref.ref(session)
        # Whether the same page may be asked for again by a repeated request.
        self._is_repeated = id is not None
        self._waiting: list[asyncio.Future[None]] = []
        self.belong_to(session, exchange)

    def belong_to(self, session: "Session", exchange: Exchange) -> None:
        """Inform the client of this request when the user is done."""
        self._session = weakref.ref(session)
        # Not the request itself, which holds the stream of its answer.
        self._request_id = exchange.id
        # Not what the session says: a request may stand on its own beside it.
        self._is_announced = _COMPLETE in exchange.revision.notifications["server"]

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
        self.is_complete = True
        session = self._session()
        if session is not None:
            if not self._is_repeated:
                session.server.elicitations.discard(self)
            session.run_here(self._announce, session)
        return True

    def _announce(self, session: "Session") -> None:
        for future in self._waiting:
            if not future.done():
                future.set_result(None)
        if not self._is_announced:
            return  # elicitation.url.no-elicitation-id: the repeated request shows the outcome
        within = session.endpoint.conversation.open_exchange("client", self._request_id)
        # elicitation.complete.same-client
        session.notify(_COMPLETE, ElicitationCompleteParams(elicitation_id=self.id), within)

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
    """The pages that users of a server were asked to visit, by their ids."""

    def __init__(self) -> None:
        self._by_id: dict[str, UrlElicitation] = {}
        self._of_owner: dict[object, dict[str, None]] = {}
        # Handlers in threads prepare pages too.
        self._lock = threading.RLock()

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
            known.belong_to(session, exchange)
            return known
        made = UrlElicitation(message, url, session, exchange, id)
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
            id = keep and keep(f"page {page_key(message, url)}", make_id)
        return self.add(message, url, session, exchange, id=id)

    def find(self, id: str) -> UrlElicitation | None:
        """Return the page with this id, unless it is complete or forgotten."""
        found = self._by_id.get(id)
        return None if found is None or found.is_complete else found

    def discard(self, elicitation: UrlElicitation) -> None:
        """Forget a page."""
        with self._lock:
            if self._by_id.pop(elicitation.id, None) is not None:
                own = self._of_owner[elicitation.owner]
                del own[elicitation.id]
                if not own:
                    del self._of_owner[elicitation.owner]


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
    from accord.server.rounds import Rounds

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
