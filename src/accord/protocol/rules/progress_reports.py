"""Deep rules of progress: how it is asked for, what a report carries, and when reports end."""

from typing import TYPE_CHECKING, Any, Final

from accord.protocol.exchange import Exchange, Step, meta_of
from accord.protocol.jsonrpc import NOTIFICATION, REQUEST, RESULT
from accord.protocol.methods import KNOWN
from accord.protocol.party import Bounded
from accord.protocol.rules._rule import Breach, Outcome, check
from accord.protocol.rules.parts import META
from accord.protocol.rules.progress import TASK_TOKENS
from accord.protocol.rules.values import as_id, describe, is_number
from accord.protocol.violation import CLIENT, OTHER, SERVER, WARN

if TYPE_CHECKING:
    from accord.protocol.conversation import Conversation

_PROGRESS: Final = "notifications/progress"
_COMPLETION: Final = "progress.stops-after-completion"
_TERMINAL: Final = "progress.task.stops-at-terminal"
_TASKED: Final = ("tools/call", "sampling/createMessage", "elicitation/create")
_TASK_NEWS: Final = ("tasks/get", "tasks/cancel", "tasks/result", "notifications/tasks/status")
_ENDS: Final = frozenset({"completed", "failed", "cancelled"})


def _report(step: Step) -> dict[str, Any]:
    return step.body if isinstance(step.body, dict) else {}


# -- asking


@check("progress.token.in-meta", kind=REQUEST)
def token_travels_in_meta(step: Step, conversation: "Conversation") -> Outcome:
    if step.name in KNOWN and "progressToken" in _report(step):
        return f"puts progressToken of {step.name} into params, not into params._meta"
    return True if "progressToken" in meta_of(step.body) else None


@check("progress.token.type", kind=REQUEST)
def token_is_string_or_integer(step: Step, conversation: "Conversation") -> Outcome:
    return _judge_token(meta_of(step.body))


@check("progress.token.type", kind=NOTIFICATION, on=_PROGRESS)
def reported_token_is_string_or_integer(step: Step, conversation: "Conversation") -> Outcome:
    return _judge_token(_report(step))


def _judge_token(holder: dict[str, Any]) -> Outcome:
    if "progressToken" not in holder:
        return None
    token = holder["progressToken"]
    if as_id(token) is not None:
        return True
    return f"sends a progressToken that is {describe(token)}, expected a string or an integer"


# -- reporting


@check("progress.notification.method-name", kind=NOTIFICATION)
def progress_is_called_so(step: Step, conversation: "Conversation") -> Outcome:
    if step.name == _PROGRESS:
        return True
    if step.name not in KNOWN and "progressToken" in _report(step):
        return f"reports progress with {step.name[:60]!r}; the method is {_PROGRESS}"
    return None


@check("progress.notification.token", kind=NOTIFICATION, on=_PROGRESS)
def report_has_a_token(step: Step, conversation: "Conversation") -> Outcome:
    if step.body is not None and not isinstance(step.body, dict):
        return None
    return "progressToken" in _report(step) or "reports progress without a progressToken"


@check("progress.notification.progress", kind=NOTIFICATION, on=_PROGRESS)
def report_has_a_number(step: Step, conversation: "Conversation") -> Outcome:
    if not isinstance(step.body, dict):
        return None
    if "progress" not in step.body:
        return "reports progress without a progress value"
    return _is_number(step.body["progress"], "progress")


@check("progress.notification.total", kind=NOTIFICATION, on=_PROGRESS)
def total_is_a_number(step: Step, conversation: "Conversation") -> Outcome:
    report = _report(step)
    return _is_number(report["total"], "total") if "total" in report else None


def _is_number(value: Any, name: str) -> Outcome:
    return is_number(value) or f"reports a {name} that is {describe(value)}, expected a number"


@check("progress.notification.message", kind=NOTIFICATION, on=_PROGRESS)
def message_is_text(step: Step, conversation: "Conversation") -> Outcome:
    report = _report(step)
    if "message" not in report:
        return None
    message = report["message"]
    return isinstance(message, str) or (
        f"reports a message that is {describe(message)}, expected a string"
    )


@check("progress.server-only", by=SERVER, kind=NOTIFICATION, on=_PROGRESS)
def server_reports_progress(step: Step, conversation: "Conversation") -> Outcome:
    return True


@check("progress.server-only", by=CLIENT, kind=NOTIFICATION, on=_PROGRESS)
def client_reports_no_progress(step: Step, conversation: "Conversation") -> Outcome:
    return f"sends {_PROGRESS}; only servers do"


# -- ending


@check(_COMPLETION, kind=NOTIFICATION, on=_PROGRESS)
def progress_ends_with_the_total(step: Step, conversation: "Conversation") -> Outcome:
    # Progress after the answer is progress.notification.active-only; before it, a report may still
    # have said itself that all is done. A total may be an estimate, so that is no more than odd.
    memory, exchange = conversation.memory, step.exchange
    if memory is None or exchange is None:
        return None
    done: Bounded[Any, Exchange] = memory.facts.setdefault(_COMPLETION, Bounded())
    key = exchange.sender, exchange.token
    if done.get(key) is exchange:
        return Breach(f"reports progress on {exchange.token!r} after its total", severity=WARN)
    value: Any = _report(step).get("progress")
    total: Any = _report(step).get("total")
    if is_number(value) and is_number(total) and value >= total:
        done[key] = exchange
    return True


@check("progress.task.same-token", kind=RESULT, on=_TASKED)
def task_keeps_its_token(step: Step, conversation: "Conversation") -> Outcome:
    task = step.body.get("task") if isinstance(step.body, dict) else None
    id = task.get("taskId") if isinstance(task, dict) else None
    if conversation.memory is None or step.exchange is None or not isinstance(id, str):
        return None
    asker, token = OTHER[step.sender], step.exchange.token
    known: Bounded[Any, Any] = conversation.memory.facts.setdefault(TASK_TOKENS, Bounded())
    known[id] = token
    if token is not None:
        known[asker, token] = id
    return None


@check("progress.task.same-token", kind=NOTIFICATION, on=_PROGRESS)
def task_reports_under_its_token(step: Step, conversation: "Conversation") -> Outcome:
    known = _task_tokens(conversation)
    id, token = _task_of(step, conversation), as_id(_report(step).get("progressToken"))
    if id is None or id not in known or token is None:
        return None
    if known[id] == token and isinstance(known[id], str) is isinstance(token, str):
        return True
    return f"reports progress of task {id[:40]} under {token!r}, not under the token of its request"


@check(_TERMINAL, kind=(RESULT, NOTIFICATION), on=_TASK_NEWS)
def task_end_is_noted(step: Step, conversation: "Conversation") -> Outcome:
    body = _report(step)
    params = step.exchange.params if step.exchange else None
    asked = params.get("taskId") if isinstance(params, dict) else None
    id = asked if step.kind == RESULT else body.get("taskId")
    status = body.get("status")
    is_over = step.name == "tasks/result" or (isinstance(status, str) and status in _ENDS)
    if conversation.memory is not None and isinstance(id, str) and is_over:
        conversation.memory.facts.setdefault(_TERMINAL, Bounded())[id] = None
    return None


@check(_TERMINAL, kind=NOTIFICATION, on=_PROGRESS)
def task_reports_until_it_ends(step: Step, conversation: "Conversation") -> Outcome:
    id = _task_of(step, conversation)
    if id is None or conversation.memory is None or id not in _task_tokens(conversation):
        return None
    if id in conversation.memory.facts.get(_TERMINAL, ()):
        return f"reports progress of task {id[:40]}, which has ended"
    return True


def _task_tokens(conversation: "Conversation") -> dict[Any, Any]:
    memory = conversation.memory
    known: dict[Any, Any] = {} if memory is None else memory.facts.get(TASK_TOKENS, {})
    return known


def _task_of(step: Step, conversation: "Conversation") -> str | None:
    """The task a report is about: the one it names, else the one whose request had its token."""
    related = meta_of(step.body).get(f"{META}related-task")
    id = related.get("taskId") if isinstance(related, dict) else None
    token = as_id(_report(step).get("progressToken"))
    if id is None and step.exchange is None and token is not None:
        id = _task_tokens(conversation).get((OTHER[step.sender], token))
    return id if isinstance(id, str) else None
