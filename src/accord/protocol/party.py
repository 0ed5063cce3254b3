"""What is known of the parties: capabilities, open requests, tokens, used ids, earlier messages.

Capabilities are dotted paths; None stands for those that are still unknown. What is kept is
bounded.
"""

from collections import OrderedDict
from contextlib import suppress
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar, cast, get_args

import msgspec
from msgspec import UNSET, Raw

from accord.protocol.exchange import META_CAPABILITIES, META_VERSION, Exchange, member
from accord.protocol.revisions import Revision
from accord.protocol.violation import Party
from accord.types._base import JsonObject, ProgressToken, RequestId
from accord.types.lifecycle import Implementation, InitializeParams
from accord.types.server_features import LoggingLevel

Key = TypeVar("Key")
Value = TypeVar("Value")

# Enough for any real session; a recording that exceeds it is judged on the newest part.
REMEMBERED: Final = 100_000
_MODES: Final = ("form", "url")
_LEVELS: Final = get_args(LoggingLevel)
META_CLIENT: Final = "io.modelcontextprotocol/clientInfo"
META_LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"
# As many clients as a server may have at one time; longer introductions are read each time.
_PEERS_MOST: Final = 1024
_PEER_BYTES: Final = 4096
_encode: Final = msgspec.json.Encoder().encode


def capability_paths(capabilities: object) -> frozenset[str]:
    """Flatten capabilities to dotted paths; an object or `true` declares, nothing else does."""
    if isinstance(capabilities, frozenset):
        return capabilities
    if isinstance(capabilities, msgspec.Struct):
        capabilities = msgspec.to_builtins(capabilities)
    found: set[str] = set()
    _collect(capabilities, "", found, 0)
    return _share(frozenset(found))


@lru_cache(maxsize=1024)
def _share(paths: frozenset[str]) -> frozenset[str]:
    """Let sessions with the same capabilities share one set: it is most of what a session costs."""
    return paths


def _collect(value: object, prefix: str, found: set[str], depth: int) -> None:
    # Capabilities nest four deep at most (tasks.requests.tools.call); what lies below is settings.
    if not isinstance(value, dict) or depth > 4:
        return
    for key, inner in value.items():
        if inner is True or isinstance(inner, dict):
            path = f"{prefix}{key}"
            found.add(path)
            _collect(inner, f"{path}.", found, depth + 1)


def elicitation_modes(declared: frozenset[str]) -> frozenset[str]:
    """Return the modes in which a client can be asked.

    An empty `elicitation` object means form mode alone (elicitation.capability.at-least-one-mode).

    >>> sorted(elicitation_modes(frozenset({"elicitation", "elicitation.url"})))
    ['url']
    """
    if "elicitation" not in declared:
        return frozenset()
    named = frozenset(mode for mode in _MODES if f"elicitation.{mode}" in declared)
    return named or frozenset({"form"})


def undeclared_mode(params: object, declared: frozenset[str] | None) -> str | None:
    """Return the mode of an elicitation if the client declared elicitation, but not this mode."""
    mode = member(params, "mode")
    mode = "form" if mode is None else mode  # elicitation.mode.absent-is-form
    if declared is None or "elicitation" not in declared or mode not in _MODES:
        return None
    return None if mode in elicitation_modes(declared) else str(mode)


def undeclared_tools(params: object, declared: frozenset[str] | None) -> str | None:
    """Return the member that offers tools to a client with sampling, but without sampling.tools."""
    if declared is None or "sampling" not in declared or "sampling.tools" in declared:
        return None
    names = ("tools", "toolChoice")
    return next((name for name in names if member(params, name) is not None), None)


class Bounded(OrderedDict[Key, Value], Generic[Key, Value]):
    """A dictionary that forgets its oldest entries beyond a limit."""

    def __init__(self, limit: int = REMEMBERED) -> None:
        super().__init__()
        self.limit = limit

    def __setitem__(self, key: Key, value: Value) -> None:
        super().__setitem__(key, value)
        if len(self) > self.limit:
            self.popitem(last=False)


class UsedIds:
    """Every id a party has used: a range, since most parties count, and what lies outside it."""

    def __init__(self) -> None:
        self._texts: Bounded[str, None] = Bounded()
        self._scattered: Bounded[int, None] = Bounded()
        self._counted = range(0)
        self._returned: Bounded[RequestId, None] = Bounded()

    def __contains__(self, id: RequestId) -> bool:
        if id in self._returned:
            return False
        if isinstance(id, str):
            return id in self._texts
        return id in self._counted or id in self._scattered

    def add(self, id: RequestId) -> None:
        """Remember an id."""
        self._returned.pop(id, None)
        if isinstance(id, str):
            self._texts[id] = None
        elif not self._counted:
            self._counted = range(id, id + 1)
        elif id == self._counted.stop:
            self._counted = range(self._counted.start, id + 1)
        elif id == self._counted.start - 1:
            self._counted = range(id, self._counted.stop)
        elif id not in self:
            self._scattered[id] = None

    def give_back(self, id: RequestId) -> None:
        """Let an id be used again, because its request was refused unread."""
        self._returned[id] = None


# Late answers to cancelled requests are recognized within this many further cancellations.
_CANCELLED_REMEMBERED: Final = 1024
# Shared by all parties without open or cancelled requests and tokens in use, so that an idle one
# owns no table. Nothing can be added to them, or a session would see the requests of another.
_NONE_CANCELLED: Final[Bounded[RequestId, Exchange]] = Bounded(0)
NONE_OPEN: Final = cast(dict[RequestId, Exchange], MappingProxyType({}))
NONE_IN_USE: Final = cast(dict[ProgressToken, Exchange], MappingProxyType({}))


class PartyState(msgspec.Struct):
    """One party of a conversation: its open requests, progress tokens and capabilities.

    `capabilities` are dotted paths, None while they are unknown. `used` is every id it ever used;
    only a conversation that remembers has it, and such a one forgets the oldest open requests: it
    cannot refuse any.
    """

    open: dict[RequestId, Exchange] = msgspec.field(default_factory=lambda: NONE_OPEN)
    tokens: dict[ProgressToken, Exchange] = msgspec.field(default_factory=lambda: NONE_IN_USE)
    cancelled: Bounded[RequestId, Exchange] = msgspec.field(default_factory=lambda: _NONE_CANCELLED)
    capabilities: frozenset[str] | None = None
    used: UsedIds | None = None

    def keep_open(self, exchange: Exchange) -> Exchange:
        """Open a request; of two with the same id, the first stays and is returned."""
        if self.open is NONE_OPEN:
            self.open = {}
        return self.open.setdefault(exchange.id, exchange)

    def release_tables(self) -> None:
        """Own no empty table: one that was used takes 230 bytes, as much as two objects."""
        if not self.open:
            self.open = NONE_OPEN
        if not self.tokens:
            self.tokens = NONE_IN_USE

    def keep_token(self, exchange: Exchange, token: ProgressToken) -> None:
        """Know a request by its token; of two with the same, the first."""
        if self.tokens is NONE_IN_USE:
            self.tokens = {}
        self.tokens.setdefault(token, exchange)

    def forget_token(self, exchange: Exchange) -> None:
        """Free the token of a request that is over."""
        if exchange.token is not None and self.tokens.get(exchange.token) is exchange:
            del self.tokens[exchange.token]

    def remember_cancelled(self, exchange: Exchange) -> None:
        """Recognize the answer to a request that may still come, although it is not wanted."""
        if self.cancelled is _NONE_CANCELLED:
            self.cancelled = Bounded(_CANCELLED_REMEMBERED)
        self.cancelled[exchange.id] = exchange


def make_party(*, has_memory: bool) -> PartyState:
    """Make the state of a party; a conversation that remembers forgets its oldest requests."""
    if not has_memory:
        return PartyState()
    return PartyState(open=Bounded(), tokens=Bounded(), used=UsedIds())


class Peer(msgspec.Struct, frozen=True):
    """The client behind a request: what it said of itself, and which log messages it wants.

    One object serves all requests of a session; a further `initialize` or another log level makes a
    new one, and requests in flight keep theirs. A request that stands on its own has its own, from
    its `_meta`. `capabilities` are dotted paths, `extensions` the settings of extensions by their
    ids; without a `log_level` no log message is wanted.
    """

    revision: Revision
    info: Implementation | None = None
    capabilities: frozenset[str] = frozenset()
    log_level: LoggingLevel | None = "info"
    extensions: JsonObject = {}

    def with_log_level(self, level: LoggingLevel) -> "Peer":
        """Return the same peer, which wants log messages from this level on."""
        return msgspec.structs.replace(self, log_level=level)


class RawMeta(msgspec.Struct, gc=False, omit_defaults=True):
    """What the protocol itself reads of the `_meta` of a request; the rest is skipped.

    Nothing is checked yet, and what introduces the client stays raw: it is the same in most
    requests, so that comparing the text is enough.
    """

    version: Any = msgspec.field(name=META_VERSION, default=UNSET)
    capabilities: Raw = msgspec.field(name=META_CAPABILITIES, default=Raw())
    client: Raw = msgspec.field(name=META_CLIENT, default=Raw())
    log_level: Raw = msgspec.field(name=META_LOG_LEVEL, default=Raw())
    token: Any = msgspec.field(name="progressToken", default=None)


class Introduction(msgspec.Struct, frozen=True):
    """A client that introduces itself with each request, and its words unless they are long."""

    words: RawMeta | None
    peer: Peer | None


NOBODY: Final = Introduction(None, None)

_known: Final[dict[bytes, Introduction]] = {}
_opened: Final[dict[tuple[str, bytes, frozenset[str], LoggingLevel], Peer]] = {}


def peer_from_initialize(
    params: InitializeParams, revision: Revision, log_level: LoggingLevel
) -> Peer:
    """Make the peer that an `initialize` request introduces.

    Most clients of a server are the same program: those share one peer.

    Args:
        params: those of the request.
        revision: the one that the server answers with.
        log_level: which log messages it gets until it asks for others.
    """
    declared = capability_paths(params.capabilities)
    settings = params.capabilities.extensions or {}
    made = Peer(revision, params.client_info, declared, log_level, settings)
    text = _encode([made.info, settings])
    if len(text) + sum(map(len, declared)) > _PEER_BYTES:
        return made
    key = (revision.id, text, declared, log_level)
    found = _opened.get(key)
    if found is None:
        if len(_opened) >= _PEERS_MOST:
            _opened.clear()
        found = _opened[key] = made
    return found


def read_introduction(meta: RawMeta, revision: Revision) -> Introduction:
    """Make the peer that a request without a handshake introduces in its `_meta`.

    Requests of one client repeat the same words, so introductions are remembered.

    Args:
        meta: what the request says, without its token.
        revision: the one that it names.

    Raises:
        ValueError: the capabilities or the log level are malformed; the message names them.
    """
    text = _encode(meta)
    found = _known.get(text)
    if found is None:
        peer = _read_peer(meta, revision)
        if len(text) > _PEER_BYTES:
            return Introduction(None, peer)
        if len(_known) >= _PEERS_MOST:
            _known.clear()
        # Read from the text: what is kept must not keep the whole message.
        _known[text] = found = Introduction(msgspec.json.decode(text, type=RawMeta), peer)
    return found


def _read_peer(meta: RawMeta, revision: Revision) -> Peer:
    words = (meta.capabilities, meta.client, meta.log_level)
    declared, client, level = (msgspec.json.decode(raw) if raw else None for raw in words)
    if not isinstance(declared, dict):
        raise ValueError(f"_meta has no object {META_CAPABILITIES}")  # noqa: TRY004  # of a peer
    if level is not None and level not in _LEVELS:
        raise ValueError(f"{META_LOG_LEVEL} is {level!r:.40}, expected {', '.join(_LEVELS)}")
    info = None
    if client is not None:
        # Only for display: a client that names itself badly is served all the same.
        with suppress(msgspec.ValidationError):
            info = msgspec.convert(client, Implementation)
    return Peer(revision, info, capability_paths(declared), level, _settings_of(declared))


def _settings_of(declared: JsonObject) -> JsonObject:
    """Return the settings of the extensions that a client declares."""
    extensions = declared.get("extensions")
    if not isinstance(extensions, dict):
        return {}
    return {id: settings for id, settings in extensions.items() if isinstance(settings, dict)}


class KnownTask(msgspec.Struct, kw_only=True):
    """A task, by its last report: its owner, the request that became it, its questions.

    `since` is when it was first reported, by the time of the record; `updated` its lastUpdatedAt,
    and `stream` the stream over HTTP that brought the report.
    """

    owner: Party
    request: Exchange | None = None
    since: float | None = None
    updated: str = ""
    stream: str | None = None
    status: str | None = None
    asked: dict[str, Any] = {}
    answered: set[str] = set()


class Round(msgspec.Struct, kw_only=True):
    """Questions that a request was answered with; `ids` are of the request and its repeats."""

    ids: tuple[RequestId, ...]
    asked: dict[str, Any]


class Memory:
    """What deep rules need to know of earlier messages."""

    def __init__(self) -> None:
        self.tools: Bounded[str, dict[str, Any]] = Bounded()
        self.tool_pages: Bounded[str, frozenset[str]] = Bounded(1_000)
        """By cursor, the names of the tools on the pages before the one it leads to."""
        self.cursors: dict[str, Bounded[str, None]] = {}
        self.subscribed: Bounded[str, None] = Bounded()
        self.unsubscribed: Bounded[str, float | None] = Bounded()
        """By URI, the time of the record that ended its subscription."""
        self.log_level: str | None = None
        self.tasks: Bounded[tuple[Party, str], KnownTask] = Bounded()
        """By owner and task id."""
        self.rounds: Bounded[str, Round] = Bounded()
        """By the state that was handed out, and by what was requested."""
        self.acknowledged: Bounded[RequestId, None] = Bounded()
        """The listen requests under way whose filter the server has confirmed."""
        self.facts: dict[str, Any] = {}
        """Scratch space of single rules, by requirement id."""

    def cursors_of(self, method: str) -> Bounded[str, None]:
        """The cursors a server has given out for a list method."""
        return self.cursors.setdefault(method, Bounded())
