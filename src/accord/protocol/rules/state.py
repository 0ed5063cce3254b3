"""Rules on order, ids and capabilities, which endpoints obey and monitors judge by."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from accord.protocol.exchange import Step, member
from accord.protocol.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    NOTIFICATION,
    REQUEST,
    RESULT,
    Kind,
)
from accord.protocol.party import undeclared_mode, undeclared_tools
from accord.protocol.revisions import KNOWN, REQUESTS, Phase
from accord.protocol.rules._rule import (
    REPLIES,
    Breach,
    Declared,
    Outcome,
    messages,
    notifications,
    requests,
    state,
)
from accord.protocol.violation import ACCEPT, CLIENT, IGNORE, OTHER, SERVER, Party
from accord.types._base import ALWAYS, Lifetime

if TYPE_CHECKING:
    from accord.protocol.conversation import Conversation
    from accord.protocol.revisions import Revision

_HANDSHAKE: Final = Lifetime(until="2025-11-25")
_STATELESS: Final = Lifetime(since="2026-07-28")

_CANCELLED: Final = "notifications/cancelled"
_PROGRESS: Final = "notifications/progress"

TASK_TOKENS: Final = "progress.task.same-token"
"""The name of the fact with the progress tokens of requests that became tasks."""


# -- cancellation: only own requests, never `initialize`


@state(
    "cancellation.request-id.previously-issued",
    notifications(_CANCELLED),
    reaction=IGNORE,
    at="requestId",
)
def cancels_its_own_request(step: Step, conversation: "Conversation") -> Outcome:
    id = member(step.body, "requestId")
    if id is None:
        return None
    if not isinstance(id, int | str) or isinstance(id, bool):
        return "cancels an id that is neither a string nor an integer"
    if step.sender == SERVER and not step.revision.server_requests:
        # Such a server cancels requests of the client, see cancellation.server-names-listen.
        return None
    party = conversation.party(step.sender)
    if step.exchange is not None or id in party.cancelled:
        return True
    # An answer may have crossed the cancellation; endpoints, which keep no ids, assume so.
    if party.used is None or id in party.used:
        return True
    if _may_be_on_its_way(step, conversation):
        return None
    return f"cancels id {id!r}, which it never sent"


def _may_be_on_its_way(step: Step, conversation: "Conversation") -> bool:
    """Return whether a request that is cancelled may arrive later, on another stream over HTTP.

    A server asks on the response to a request, and its cancellation may come on the stream that
    belongs to no request.
    """
    record = step.record
    if step.sender != SERVER or record is None or record.transport != "http":
        return False
    if record.http is None or record.http.method != "GET":
        return False
    client = conversation.client
    return bool(client.open or client.cancelled)


@state(
    "cancellation.initialize.excluded",
    notifications(_CANCELLED, by=CLIENT),
    lifetime=_HANDSHAKE,
    reaction=IGNORE,
    at="requestId",
)
def initialize_is_not_cancelled(step: Step, conversation: "Conversation") -> Outcome:
    if step.exchange is None:
        return None
    return step.exchange.name != "initialize" or "cancels initialize"


# -- methods: only those that exist in the revision, and those whose capability was declared


@state(
    "lifecycle.capabilities.only-declared",
    requests(),
    lifetime=_HANDSHAKE,
    reaction=METHOD_NOT_FOUND,
    holds_for=lambda revision, sender, name, _: name in revision.requests[sender],
    at="/method",
)
@state(
    "lifecycle.capabilities.only-declared",
    notifications(),
    lifetime=_HANDSHAKE,
    reaction=IGNORE,
    holds_for=lambda revision, sender, name, _: name in revision.notifications[sender],
    at="/method",
)
def method_exists_in_the_revision(step: Step, conversation: "Conversation") -> Outcome:
    is_request = step.kind == REQUEST
    defined = step.revision.requests if is_request else step.revision.notifications
    if step.name in defined[step.sender]:
        return True
    if step.name not in KNOWN or (step.name in REQUESTS) is not is_request:
        return None
    return f"sends {step.name}, which a {step.sender} cannot send in {step.revision.id}"


def _receiver_declared(revision: "Revision", sender: Party, name: str, declared: Declared) -> bool:
    needed = revision.needed_for(sender, name)
    return needed is None or needed in (declared[OTHER[sender]] or ())


@state(
    "lifecycle.capabilities.respected",
    requests(),
    lifetime=_HANDSHAKE,
    reaction=METHOD_NOT_FOUND,
    holds_for=_receiver_declared,
    at="/method",
)
def request_needs_a_declared_capability(step: Step, conversation: "Conversation") -> Outcome:
    needed = step.revision.needed_for(step.sender, step.name)
    declared = conversation.party(OTHER[step.sender]).capabilities
    if not needed or declared is None:
        return None
    if needed in declared:
        return True
    return f"sends {step.name}, but the {OTHER[step.sender]} did not declare {needed}"


# -- members of a capability: the mode of an elicitation, tools in sampling


def judge_mode(params: object, declared: frozenset[str] | None) -> bool | str | None:
    """Judge that an elicitation is in a mode that the client declared."""
    if declared is None or "elicitation" not in declared:
        return None
    mode = undeclared_mode(params, declared)
    return mode is None or f"asks in mode {mode}, but the client did not declare elicitation.{mode}"


def judge_tools(params: object, declared: frozenset[str] | None) -> bool | str | None:
    """Judge that sampling offers tools only to a client that declared them."""
    if declared is None or "sampling" not in declared:
        return None
    name = undeclared_tools(params, declared)
    return name is None or f"sends {name}, but the client did not declare sampling.tools"


def _bind_member(
    requirement: str,
    method: str,
    judge: Callable[[object, frozenset[str] | None], bool | str | None],
    member: str,
) -> None:
    # Endpoints ask these rules about every question, because they depend on its content.
    @state(
        requirement,
        requests(method, by=SERVER),
        lifetime=Lifetime(since="2025-11-25"),
        reaction=INVALID_PARAMS,
        at=member,
    )
    def question_is_one_of_the_declared(step: Step, conversation: "Conversation") -> Outcome:
        return judge(step.body, conversation.capabilities(CLIENT, step.exchange))


_bind_member("elicitation.mode.supported-only", "elicitation/create", judge_mode, "mode")
_bind_member(
    "sampling.tools.not-without-capability", "sampling/createMessage", judge_tools, "tools"
)


# -- capabilities of the sender: by requirement the capability, and the methods that need it

_CLIENT_CAPABILITIES: Final = ("roots", "sampling", "elicitation")

_ANSWERS: Final = {
    "tools.capability.declared": ("tools", "tools/list", "tools/call"),
    "resources.capability.declared": (
        "resources",
        "resources/list",
        "resources/templates/list",
        "resources/read",
    ),
    "prompts.capability.declared": ("prompts", "prompts/list", "prompts/get"),
    "completion.capability.declared": ("completions", "completion/complete"),
    "logging.capability.declared": ("logging", "logging/setLevel"),
    "resources.subscribe.capability-required": (
        "resources.subscribe",
        "resources/subscribe",
        "resources/unsubscribe",
    ),
    "roots.capability.declared": ("roots", "roots/list"),
    "sampling.capability.declared": ("sampling", "sampling/createMessage"),
    "elicitation.capability.declared": ("elicitation", "elicitation/create"),
}
_NOTIFICATIONS: Final = {
    "logging.capability.declared": ("logging", "message"),
    "resources.subscribe.capability-required": ("resources.subscribe", "resources/updated"),
    "tools.list-changed.capability-required": ("tools.listChanged", "tools/list_changed"),
    "resources.list-changed.capability-required": (
        "resources.listChanged",
        "resources/list_changed",
    ),
    "prompts.list-changed.capability-required": ("prompts.listChanged", "prompts/list_changed"),
    "roots.list-changed.capability-required": ("roots.listChanged", "roots/list_changed"),
}
_LIFETIMES: Final[dict[str, Lifetime]] = {
    "completion.capability.declared": Lifetime(since="2025-03-26"),
    "elicitation.capability.declared": Lifetime("2025-06-18", "2025-11-25"),
    "tools.list-changed.capability-required": ALWAYS,
    "resources.list-changed.capability-required": ALWAYS,
    "prompts.list-changed.capability-required": ALWAYS,
}


def _bind_capability(requirement: str, kind: Kind, capability: str, *methods: str) -> None:
    is_of_client = capability.partition(".")[0] in _CLIENT_CAPABILITIES
    does = "answers" if kind == RESULT else "sends"

    @state(
        requirement,
        messages(kind, methods, by=CLIENT if is_of_client else SERVER),
        lifetime=_LIFETIMES.get(requirement, _HANDSHAKE),
        holds_for=lambda _, sender, __, declared: capability in (declared[sender] or ()),
        at="/method" if kind == NOTIFICATION else "",
    )
    def sender_declared_the_capability(step: Step, conversation: "Conversation") -> Outcome:
        declared = conversation.party(step.sender).capabilities
        if declared is None:
            return None
        return capability in declared or f"{does} {step.name} without declaring {capability}"


for _requirement, (_capability, *_methods) in _ANSWERS.items():
    _bind_capability(_requirement, RESULT, _capability, *_methods)
for _requirement, (_capability, _method) in _NOTIFICATIONS.items():
    _bind_capability(_requirement, NOTIFICATION, _capability, f"notifications/{_method}")


# -- the opening: which messages may precede its end, and in which order

_opening = partial(state, lifetime=_HANDSHAKE, only="opening", at="/method")


@_opening("lifecycle.initialize.first", requests(by=CLIENT), reaction=INVALID_REQUEST)
def initialize_comes_first(step: Step, conversation: "Conversation") -> Outcome:
    # A later initialize begins anew, as bridges do for each of their clients; it is not forbidden.
    if step.name == "initialize":
        return True
    if conversation.phase is not Phase.OPENING or step.name == "ping":
        return None
    return f"sends {step.name} before initialize"


@_opening("lifecycle.initialize.client-waits", requests(by=CLIENT), reaction=INVALID_REQUEST)
def client_waits_for_the_answer(step: Step, conversation: "Conversation") -> Outcome:
    if conversation.phase is not Phase.NEGOTIATING or step.name == "initialize":
        return None
    return True if step.name == "ping" else f"sends {step.name} before initialize is answered"


@_opening("lifecycle.initialized.sent", requests(by=CLIENT))
def client_says_initialized(step: Step, conversation: "Conversation") -> Outcome:
    if conversation.phase is Phase.NEGOTIATED and step.name not in ("ping", "initialize"):
        return f"sends {step.name} before notifications/initialized"
    return None


@state(
    "lifecycle.initialized.sent",
    notifications("notifications/initialized", by=CLIENT),
    lifetime=_HANDSHAKE,
    reaction=IGNORE,
    at="/method",
)
def initialized_follows_the_answer(step: Step, conversation: "Conversation") -> Outcome:
    if conversation.phase in (Phase.OPENING, Phase.NEGOTIATING):
        return "sends notifications/initialized before initialize is answered"
    return True


@_opening("lifecycle.initialized.server-waits", requests(by=SERVER))
def server_waits_for_initialized(step: Step, conversation: "Conversation") -> Outcome:
    if conversation.phase is Phase.READY or step.name == "ping":
        return True
    return f"sends {step.name} before notifications/initialized"


# -- JSON-RPC: unique ids, and one answer to each request


@state("jsonrpc.request.id-unique", requests(), lifetime=_HANDSHAKE, only="reuse", at="/id")
def id_is_new(step: Step, conversation: "Conversation") -> Outcome:
    assert step.id is not None
    party = conversation.party(step.sender)
    if step.id in party.open:
        return Breach(f"sends id {step.id!r} while it is in flight", reaction=INVALID_REQUEST)
    if party.used is not None and step.id in party.used and not conversation.begins_anew(step):
        return Breach(f"sends id {step.id!r} a second time", reaction=ACCEPT)
    return True


@state(
    "jsonrpc.id.distinct-among-pending",
    requests(by=CLIENT),
    lifetime=_STATELESS,
    reaction=INVALID_REQUEST,
    only="reuse",
    at="/id",
)
def id_is_not_in_flight(step: Step, conversation: "Conversation") -> Outcome:
    if step.id in conversation.party(step.sender).open:
        return f"sends id {step.id!r} while it is in flight"
    return True


@state("jsonrpc.request.id-present", notifications(REQUESTS), reaction=IGNORE, at="/method")
def request_has_an_id(step: Step, conversation: "Conversation") -> Outcome:
    return f"sends the request {step.name} without an id"


@state(
    "jsonrpc.notification.no-id",
    requests(),
    reaction=INVALID_REQUEST,
    holds_for=lambda _, __, name, ___: not name.startswith("notifications/"),
    at="/id",
)
def notification_has_no_id(step: Step, conversation: "Conversation") -> Outcome:
    if step.name.startswith("notifications/"):
        return f"sends the notification {step.name} with an id"
    return None


@state(
    "jsonrpc.client-only-initiates",
    requests(by=SERVER),
    lifetime=_STATELESS,
    reaction=METHOD_NOT_FOUND,
    at="/method",
)
def server_sends_no_requests(step: Step, conversation: "Conversation") -> Outcome:
    return f"sends the request {step.name}; servers ask in results instead"


@state(
    "jsonrpc.client-no-responses",
    messages(REPLIES, by=CLIENT),
    lifetime=_STATELESS,
    reaction=IGNORE,
)
def client_sends_no_responses(step: Step, conversation: "Conversation") -> Outcome:
    return "sends a response; clients answer in inputResponses instead"


# A reply to an open exchange holds; only then its method is known.
_reply = partial(
    state,
    about=messages(REPLIES),
    reaction=IGNORE,
    holds_for=lambda _, __, name, ___: name != "",
    at="/id",
)


@_reply("jsonrpc.response.id-echo", lifetime=Lifetime(until="2025-06-18"))
@_reply("jsonrpc.error.id-echoed-or-unreadable", lifetime=Lifetime(since="2025-11-25"))
def response_has_the_id_of_a_request(step: Step, conversation: "Conversation") -> Outcome:
    if step.exchange is not None:
        return True
    if step.id is None:
        return None
    asker = conversation.party(OTHER[step.sender])
    if asker.used is not None and step.id in asker.used:
        return None
    return f"answers id {step.id!r}, which no request has"


@_reply("jsonrpc.request.answered")
def request_is_answered_once(step: Step, conversation: "Conversation") -> Outcome:
    if step.exchange is not None:
        return True
    asker = conversation.party(OTHER[step.sender])
    if step.id is not None and asker.used is not None and step.id in asker.used:
        return f"answers id {step.id!r} a second time"
    return None


# -- progress: only for open requests that asked for it, and only increasing


@state("progress.token.unique", requests(), only="reuse", at="_meta.progressToken")
def token_is_not_in_use(step: Step, conversation: "Conversation") -> Outcome:
    exchange = step.exchange
    if exchange is None or exchange.token is None:
        return None
    if exchange.token in conversation.party(step.sender).tokens:
        return f"uses the progress token {exchange.token!r} for two open requests"
    return True


@state(
    "progress.notification.active-only",
    notifications(_PROGRESS),
    reaction=IGNORE,
    at="progressToken",
)
def progress_is_for_an_open_request(step: Step, conversation: "Conversation") -> Outcome:
    token = member(step.body, "progressToken")
    if token is None:
        return "sends notifications/progress without progressToken"
    if not isinstance(token, int | str) or isinstance(token, bool):
        return None
    if step.exchange is None and _belongs_to_a_task(token, step, conversation):
        return None
    return step.exchange is not None or f"reports progress on {token!r}, which no open request has"


def _belongs_to_a_task(token: object, step: Step, conversation: "Conversation") -> bool:
    memory = conversation.memory
    return memory is not None and (OTHER[step.sender], token) in memory.facts.get(TASK_TOKENS, ())


@state("progress.value.increases", notifications(_PROGRESS), at="progress")
def progress_increases(step: Step, conversation: "Conversation") -> Outcome:
    value = member(step.body, "progress")
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if step.exchange is None or step.exchange.progress is None or not is_number:
        return None
    if value > step.exchange.progress:
        return True
    return f"reports progress {value} after {step.exchange.progress}"
