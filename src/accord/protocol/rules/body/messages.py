"""JSON-RPC itself; progress and cancellation: what both say, and of which requests.

Malformed bytes never become a step: the codec rejects them and names the requirement they break.
"""

from typing import Final, TypeAlias

from accord.protocol.conversation import Conversation
from accord.protocol.exchange import Exchange, Step, meta_of
from accord.protocol.jsonrpc import (
    FAULT,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    NOTIFICATION,
    PARSE_ERROR,
    REQUEST,
    RESULT,
)
from accord.protocol.party import Bounded
from accord.protocol.revisions import KNOWN, REQUESTS
from accord.protocol.rules._rule import (
    REPLIES,
    Breach,
    Outcome,
    check,
    holds,
    messages,
    notifications,
    requests,
    results,
)
from accord.protocol.rules.body.tasks import RELATED, TASK_REQUESTS, TERMINAL
from accord.protocol.rules.shapes import shapes
from accord.protocol.rules.state import TASK_TOKENS
from accord.protocol.rules.values import (
    as_id,
    as_object,
    crosses,
    describe,
    is_number,
    memory_of,
    request_params,
)
from accord.protocol.verdict import plain_messages
from accord.protocol.violation import CLIENT, OTHER, SERVER, WARN, Party
from accord.types._base import ProgressToken, RequestId

# -- messages

_BATCH: Final = "jsonrpc.batch.send-optional"

# Every message of these kinds meets these requirements by having been decoded.
holds(messages(), "jsonrpc.message.version-2-0", "jsonrpc.encoding.utf8")
holds(
    requests(),
    "jsonrpc.request.id-string-or-integer",
    "jsonrpc.request.id-not-null",
    "jsonrpc.request.method-string",
)
holds(
    notifications(),
    "jsonrpc.notification.no-id",
    "jsonrpc.notification.method-string",
    "jsonrpc.notification.not-answered",
)
holds(messages(REPLIES), "jsonrpc.response.result-xor-error")
holds(messages(FAULT), "jsonrpc.error.code-and-message", "jsonrpc.error.code-integer")
holds(requests(REQUESTS), "jsonrpc.request.id-present")
# And these are about the kinds of messages that one party sends.
holds(messages((NOTIFICATION, RESULT, FAULT), by=SERVER), "jsonrpc.client-only-initiates")
holds(messages((REQUEST, NOTIFICATION), by=CLIENT), "jsonrpc.client-no-responses")
holds(messages(REPLIES, by=CLIENT), "jsonrpc.response.client-sends")


@check("jsonrpc.batch.removed", messages())
def message_is_not_in_a_batch(step: Step, conversation: Conversation) -> Outcome:
    # The monitor reports the batch as a whole.
    return None if step.in_batch else True


@check("jsonrpc.request.params-object", requests(), at="/params")
@check("jsonrpc.notification.params-object", notifications(), at="/params")
def params_are_an_object(step: Step, conversation: Conversation) -> Outcome:
    if isinstance(step.body, dict):
        return True
    if step.body is None and not _has_null_params(step):
        return None
    return f"sends {step.name} with params as {describe(step.body)}, expected an object"


@check("jsonrpc.response.result-member", results(), at="/result")
def result_is_an_object(step: Step, conversation: Conversation) -> Outcome:
    if isinstance(step.body, dict):
        return True
    return f"sends a result as {describe(step.body)}, expected an object"


@check(_BATCH, messages())
def batch_does_not_mix_requests_and_responses(step: Step, conversation: Conversation) -> Outcome:
    # This runs for every message of a batch; the batch is judged with its first one.
    if not step.in_batch or memory_of(conversation).facts.get(_BATCH) is step.record:
        return None
    memory_of(conversation).facts[_BATCH] = step.record
    recorded = list(plain_messages(step.record)) if step.record else []
    asks = any("method" in message and "id" in message for message in recorded)
    answers = any("result" in message or "error" in message for message in recorded)
    return "sends requests and responses in one batch" if asks and answers else True


def _has_null_params(step: Step) -> bool:
    return step.record is not None and any(
        message.get("method") == step.name and "params" in message and message["params"] is None
        for message in plain_messages(step.record)
    )


# -- error codes, where a revision divides their range

_STANDARD: Final = frozenset(
    {PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR}
)
_JSON_RPC: Final = range(-32768, -32099)
_SPECIFICATION: Final = range(-32099, -32019)
_LEGACY: Final = range(-32019, -31999)
_DEFINED: Final = frozenset({-32020, -32021, -32022})
_RETIRED: Final = {-32002: "resource not found", -32042: "URL elicitation required"}


def _error_code(step: Step) -> int:
    return 0 if step.error is None else step.error.code


@check("errors.retired-codes.not-emitted", messages(FAULT), at="/error/code")
def code_is_not_retired(step: Step, conversation: Conversation) -> Outcome:
    code = _error_code(step)
    return code not in _RETIRED or f"sends the retired error code {code} ({_RETIRED[code]})"


@check("errors.legacy-range.not-used", messages(FAULT), at="/error/code")
def code_is_not_of_the_legacy_range(step: Step, conversation: Conversation) -> Outcome:
    code = _error_code(step)
    if code in _RETIRED:
        return None
    return code not in _LEGACY or f"sends error code {code}, from the range of old implementations"


@check("errors.reserved-range.only-defined-codes", messages(FAULT), at="/error/code")
def reserved_code_is_defined(step: Step, conversation: Conversation) -> Outcome:
    code = _error_code(step)
    if code in _RETIRED:
        return None
    if code in _SPECIFICATION and code not in _DEFINED:
        return f"sends error code {code}, which the specification reserves and does not define"
    return True


@check("errors.application-codes.outside-reserved", messages(FAULT), at="/error/code")
def own_code_is_outside_the_reserved_range(step: Step, conversation: Conversation) -> Outcome:
    code = _error_code(step)
    if code in _STANDARD or code in _SPECIFICATION or code in _LEGACY:
        return None
    return code not in _JSON_RPC or f"sends error code {code}, from the range reserved by JSON-RPC"


# -- progress

_PROGRESS: Final = "notifications/progress"
_REPORTS: Final = notifications(_PROGRESS)
_COMPLETION: Final = "progress.stops-after-completion"
_TASK_END: Final = "progress.task.stops-at-terminal"
_TASK_REPORTS: Final = ("tasks/get", "tasks/cancel", "tasks/result", "notifications/tasks/status")

# Tokens by task id, and task ids by asker and token.
_TaskTokens: TypeAlias = dict[str | tuple[Party, ProgressToken], ProgressToken | str | None]

shapes(requests(), {"progress.token.type": "_meta.progressToken?: id"})
shapes(
    _REPORTS,
    {
        "progress.token.type": "progressToken?: id",
        "progress.notification.token": "body: {progressToken: any}",
        "progress.notification.progress": "progress: number",
        "progress.notification.total": "total?: number",
        "progress.notification.message": "message?: string",
    },
)


@check("progress.token.in-meta", requests(), at="progressToken")
def token_is_in_meta(step: Step, conversation: Conversation) -> Outcome:
    if step.name in REQUESTS and "progressToken" in as_object(step.body):
        return f"sends {step.name} with progressToken in params, expected it in params._meta"
    return True if "progressToken" in meta_of(step.body) else None


@check("progress.notification.method-name", notifications(), at="/method")
def progress_has_its_name(step: Step, conversation: Conversation) -> Outcome:
    if step.name == _PROGRESS:
        return True
    if step.name not in KNOWN and "progressToken" in as_object(step.body):
        return f"reports progress with {step.name[:60]!r}; the method is {_PROGRESS}"
    return None


holds(notifications(_PROGRESS, by=SERVER), "progress.server-only")


@check("progress.server-only", notifications(_PROGRESS, by=CLIENT), at="/method")
def client_does_not_report_progress(step: Step, conversation: Conversation) -> Outcome:
    return f"sends {_PROGRESS}; only servers do"


# -- the end of reports


@check(_COMPLETION, _REPORTS, at="progress")
def progress_ends_with_the_total(step: Step, conversation: Conversation) -> Outcome:
    # Progress after the answer breaks progress.notification.active-only; before it, a report may
    # already have reached its total. A total may be an estimate, so this is only a warning.
    exchange, facts = step.exchange, memory_of(conversation).facts
    if exchange is None:
        return None
    done: Bounded[object, Exchange] = facts.setdefault(_COMPLETION, Bounded())
    key = exchange.sender, exchange.token
    if done.get(key) is exchange:
        return Breach(f"reports progress on {exchange.token!r} after its total", severity=WARN)
    report = as_object(step.body)
    has_numbers = is_number(report.get("progress")) and is_number(report.get("total"))
    if has_numbers and report["progress"] >= report["total"]:
        done[key] = exchange
    return True


# -- progress of tasks


@check(TASK_TOKENS, results(TASK_REQUESTS))
def note_token_of_task(step: Step, conversation: Conversation) -> Outcome:
    task = as_object(step.body).get("task")
    if step.exchange is None or not isinstance(task, dict):
        return None
    id = task.get("taskId")
    token, tokens = step.exchange.token, _task_tokens(conversation)
    if isinstance(id, str):
        tokens[id] = token
    if token is not None:
        # The token stays in use even if the task has no valid id.
        tokens[OTHER[step.sender], token] = id if isinstance(id, str) else ""
    return None


@check(TASK_TOKENS, _REPORTS, at="progressToken")
def task_reports_under_its_token(step: Step, conversation: Conversation) -> Outcome:
    tokens = _task_tokens(conversation)
    id, token = _task_id(step, conversation), as_id(as_object(step.body).get("progressToken"))
    if id is None or id not in tokens or token is None:
        return None
    if tokens[id] == token and isinstance(tokens[id], str) is isinstance(token, str):
        return True
    return f"reports progress of task {id[:40]} under {token!r}, not under the token of its request"


@check(_TASK_END, messages((RESULT, NOTIFICATION), _TASK_REPORTS))
def note_end_of_task(step: Step, conversation: Conversation) -> Outcome:
    body = as_object(step.body)
    id = (request_params(step) if step.kind == RESULT else body).get("taskId")
    status = body.get("status")
    is_over = step.name == "tasks/result" or (isinstance(status, str) and status in TERMINAL)
    if isinstance(id, str) and is_over:
        memory_of(conversation).facts.setdefault(_TASK_END, Bounded())[id] = None
    return None


@check(_TASK_END, _REPORTS, at="progressToken")
def task_reports_until_it_ends(step: Step, conversation: Conversation) -> Outcome:
    id = _task_id(step, conversation)
    if id is None or id not in _task_tokens(conversation):
        return None
    if id in memory_of(conversation).facts.get(_TASK_END, ()):
        return f"reports progress of task {id[:40]}, which has ended"
    return True


def _task_tokens(conversation: Conversation) -> _TaskTokens:
    tokens: _TaskTokens = memory_of(conversation).facts.setdefault(TASK_TOKENS, Bounded())
    return tokens


def _task_id(step: Step, conversation: Conversation) -> str | None:
    """Return the task that a report names, else the one whose request had its token."""
    id: object = as_object(meta_of(step.body).get(RELATED)).get("taskId")
    token = as_id(as_object(step.body).get("progressToken"))
    if id is None and step.exchange is None and token is not None:
        id = _task_tokens(conversation).get((OTHER[step.sender], token))
    return id if isinstance(id, str) else None


# -- cancellation

_CANCELLED: Final = "notifications/cancelled"
_PENDING: Final = "cancellation.names-own-pending"
_NOT_FOR_TASKS: Final = "cancellation.not-for-tasks-2025"
_WRONG_NAMES: Final = (
    *("$/cancelRequest", "cancel", "canceled", "cancelled", "request/cancel"),
    *("notifications/cancel", "notifications/canceled", "notifications/cancelRequest"),
)

# For this many seconds an answer and a cancellation may cross on the wire.
_CROSSING_SECONDS: Final = 5.0

shapes(
    notifications(_CANCELLED),
    {
        "cancellation.request-id.present": "body: {requestId: id}",
        "cancellation.request-id-required": "body: {requestId: id}",
        "cancellation.reason.optional": "reason?: string",
    },
)


@check("cancellation.notification.either-party", notifications(), at="/method")
def cancellation_has_its_name(step: Step, conversation: Conversation) -> Outcome:
    if step.name == _CANCELLED:
        return True
    if step.name in _WRONG_NAMES:
        return f"cancels with {step.name}; the method is {_CANCELLED}"
    return None


def _cancelled_id(step: Step) -> RequestId | None:
    return as_id(as_object(step.body).get("requestId"))


# -- servers without requests cancel listen requests of the client


def _client_exchange(step: Step, conversation: Conversation) -> Exchange | None:
    id, client = _cancelled_id(step), conversation.client
    return None if id is None else client.open.get(id) or client.cancelled.get(id)


@check("cancellation.server-only-for-listen", notifications(_CANCELLED, by=SERVER), at="requestId")
def server_cancels_only_listen_requests(step: Step, conversation: Conversation) -> Outcome:
    exchange = _client_exchange(step, conversation)
    if exchange is None:
        return None
    return exchange.is_lasting or (
        f"cancels {exchange.name} (id {exchange.id!r}), which is not a listen request"
    )


@check("cancellation.server-names-listen", notifications(_CANCELLED, by=SERVER), at="requestId")
def server_names_a_listen_request(step: Step, conversation: Conversation) -> Outcome:
    id, client = _cancelled_id(step), conversation.client
    exchange = _client_exchange(step, conversation)
    if exchange is not None:
        return True if exchange.is_lasting else None
    if id is None or client.used is None or id in client.used:
        # It was answered a moment ago; its method is no longer remembered.
        return None
    return f"cancels id {id!r}, which is not a request of the client"


# -- only pending requests


@check(_PENDING, messages(REPLIES, by=SERVER))
def note_answer(step: Step, conversation: Conversation) -> Outcome:
    now = step.record.t if step.record else None
    if now is not None and step.id is not None:
        memory_of(conversation).facts.setdefault(_PENDING, Bounded())[step.id] = now
    return None


@check(_PENDING, notifications(_CANCELLED, by=CLIENT), at="requestId")
def client_cancels_a_pending_request(step: Step, conversation: Conversation) -> Outcome:
    id, facts = _cancelled_id(step), memory_of(conversation).facts
    ends: Bounded[RequestId, float | None] = facts.setdefault(_PENDING, Bounded())
    if id is None:
        return None
    if step.exchange is not None:
        # None is an end by cancellation, a number is the time of the answer.
        ends[id] = None
        return True
    if id not in ends:
        return None
    answered = ends[id]
    if answered is None:
        return f"cancels id {id!r} a second time"
    now = step.record.t if step.record else None
    if now is not None and now - answered > _CROSSING_SECONDS:
        return f"cancels id {id!r}, which was answered {now - answered:.0f} s before"
    return None


# -- tasks are cancelled with tasks/cancel


holds(requests("tasks/cancel"), _NOT_FOR_TASKS)


@check(_NOT_FOR_TASKS, notifications(_CANCELLED), at="requestId")
def task_is_not_cancelled_as_a_request(step: Step, conversation: Conversation) -> Outcome:
    # Before its task is known a request can be cancelled in no other way.
    id = _cancelled_id(step)
    for task in memory_of(conversation).tasks.values():
        request = task.request
        is_own = request is not None and (request.sender, request.id) == (step.sender, id)
        if request is not None and is_own and not crosses(step, task.since):
            name = f"{request.name} (id {id!r})"
            return f"cancels {name} with {_CANCELLED}; it is a task: use tasks/cancel"
    return None
