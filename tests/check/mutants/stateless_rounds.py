"""Servers that get questions in results wrong: their answers, and their states."""

import base64
from collections.abc import Callable
from typing import Any

import msgspec

from check.faults import named
from check.mutants.foundation import Between, Message, Sent, params_of, unbreakable
from check.mutants.stateless_base import (
    CALL,
    answering,
    error,
    everything,
    hooked,
    reading,
    result,
    text,
)

STATE, RESPONSES = "requestState", "inputResponses"


def responses_of(message: Message) -> Any:
    return params_of(message).get(RESPONSES)


def is_retry(message: Message) -> bool:
    return STATE in params_of(message)


def with_params(message: Message, **changed: Any) -> Message:
    return message | {"params": params_of(message) | changed}


# -- answers that are missing, unknown or malformed

AGAIN = "mrtr.server.ask-again-when-missing"


@answering(AGAIN, lambda it: responses_of(it) == {})
def fails_without_answers(message: Message) -> Message:
    return error(message, -32602, "the answer is missing")


@answering(AGAIN, lambda it: responses_of(it) == {} and it["method"] == CALL)
def reports_a_missing_answer_as_a_result(message: Message) -> Message:
    content = [{"type": "text", "text": "error: no answer"}]
    return result(message, content=content, isError=True)


@answering(
    AGAIN,
    lambda it: (
        params_of(it).get("name") == "get_ticket"
        and isinstance(responses_of(it), dict)
        and len(responses_of(it)) == 1
        and "accord" not in str([*responses_of(it)])
    ),
)
def fails_with_half_of_the_answers(message: Message) -> Message:
    return error(message, -32602, "roots are missing")


UNKNOWN = "mrtr.server.ignore-unknown-responses"


def has_unknown(message: Message) -> bool:
    return "never-asked" in str(responses_of(message))


@answering(UNKNOWN, has_unknown)
def refuses_answers_that_it_does_not_know(message: Message) -> Message:
    return error(message, -32602, "unknown key")


@answering(UNKNOWN, lambda it: has_unknown(it) and it["method"] == CALL)
def fails_over_an_unknown_answer(message: Message) -> Message:
    return error(message, -32603, "KeyError")


@reading(UNKNOWN)
def drops_all_answers_if_one_is_unknown(message: Message) -> Sent:
    return with_params(message, inputResponses={}) if has_unknown(message) else message


PARSED, AS_ERROR = "mrtr.server.validate-responses", "mrtr.server.protocol-error-on-malformed"


def entries_of(message: Message) -> list[Any]:
    given = responses_of(message)
    return [*given.values()] if isinstance(given, dict) else []


def is_malformed(message: Message) -> bool:
    given = responses_of(message)
    if given is not None and not isinstance(given, dict):
        return True
    odd = (7, {"action": 7, "content": []}, {"role": 7, "content": "none"})
    return any(each in odd or each == {"roots": "accord-check"} for each in entries_of(message))


@answering(PARSED, lambda it: is_malformed(it) and it["method"] == CALL)
def takes_whatever_is_given(message: Message) -> Message:
    return text(message)


@answering(PARSED, lambda it: it["method"] == CALL and 7 in entries_of(it))
def takes_a_number_for_an_answer(message: Message) -> Message:
    return text(message, "seven")


@answering(PARSED, lambda it: it["method"] == CALL and isinstance(responses_of(it), list))
def takes_a_list_of_answers(message: Message) -> Message:
    return text(message)


def failed(message: Message) -> Message:
    content = [{"type": "text", "text": "invalid answers"}]
    return result(message, content=content, isError=True)


@answering(AS_ERROR, lambda it: is_malformed(it) and it["method"] == CALL)
def reports_malformed_answers_as_results(message: Message) -> Message:
    return failed(message)


@answering(AS_ERROR, lambda it: it["method"] == CALL and 7 in entries_of(it))
def reports_a_number_as_a_result(message: Message) -> Message:
    return failed(message)


@answering(AS_ERROR, lambda it: it["method"] == CALL and isinstance(responses_of(it), str))
def reports_a_text_as_a_result(message: Message) -> Message:
    return failed(message)


# -- users who refuse

DECLINED = "elicitation.server.handles-decline"
ASSUMED = "elicitation.server.not-assumed-to-succeed"


def actions_of(message: Message) -> list[Any]:
    return [each.get("action") for each in entries_of(message) if isinstance(each, dict)]


def is_refused_call(message: Message) -> bool:
    return message.get("method") == CALL and bool({"decline", "cancel"} & {*actions_of(message)})


@answering(DECLINED, is_refused_call)
def fails_without_the_content(message: Message) -> Message:
    return error(message, -32603, "KeyError: 'content'")


@answering(DECLINED, lambda it: is_refused_call(it) and "cancel" in actions_of(it))
def forgets_that_users_cancel(message: Message) -> Message:
    return error(message, -32603, "unreachable code")


@hooked(
    DECLINED,
    also={"jsonrpc.request.answered": "a server that ended answers nothing"},
)
def falls_over_a_refusal(wire: Between) -> None:
    def from_client(message: Message) -> Sent:
        if is_refused_call(message):
            wire.crash()
            return None
        return message

    wire.from_client = from_client


def assuming(name: str, *refusals: str, tool: str = "") -> None:
    """Register a server that takes a refusal for the last content that it was given."""

    def hook(wire: Between) -> None:
        given: dict[str, Any] = {}

        def from_client(message: Message) -> Sent:
            changed = {}
            for key, each in (responses_of(message) or {}).items() if is_plain(message) else ():
                if each.get("action") == "accept":
                    given[key] = each
                is_meant = each.get("action") in refusals and tool in str(params_of(message))
                changed[key] = given.get(key, each) if is_meant else each
            return with_params(message, inputResponses=changed) if changed else message

        wire.from_client = from_client

    hooked(ASSUMED, everything)(named(name, hook))


def is_plain(message: Message) -> bool:
    return isinstance(responses_of(message), dict) and all(
        isinstance(each, dict) for each in entries_of(message)
    )


assuming("takes_any_refusal_for_consent", "decline", "cancel")
assuming("takes_a_cancelled_form_for_consent", "cancel")
assuming("takes_a_declined_form_for_consent", "decline")


# -- rounds without an answer

ABANDONED = "mrtr.server.no-assumed-retry"


def waiting(name: str, limit: int, react: Callable[[Between, Message], None]) -> None:
    """Register a server that does something once so many of its rounds are open."""

    def hook(wire: Between) -> None:
        open_rounds: dict[str, int] = {}

        def from_client(message: Message) -> Sent:
            called = str(params_of(message).get("name"))
            if message.get("method") != CALL:
                return message
            if is_retry(message) or responses_of(message) is not None:
                open_rounds[called] = max(open_rounds.get(called, 0) - 1, 0)
            elif open_rounds.get(called, 0) >= limit:
                react(wire, message)
                return None
            return message

        def from_server(message: Message, request: Message) -> Sent:
            called = str(params_of(request).get("name"))
            if "input_required" in str(message.get("result")):
                open_rounds[called] = open_rounds.get(called, 0) + 1
            return message

        wire.from_client, wire.from_server = from_client, from_server

    hooked(ABANDONED, only=[ABANDONED])(named(name, hook))


def refuse(wire: Between, message: Message) -> None:
    wire.later(0, lambda: wire.to_client(error(message, -32603, "too many open questions")))


waiting("refuses_calls_while_rounds_are_open", 3, refuse)
waiting("waits_for_the_open_rounds", 2, lambda wire, message: None)
waiting("ends_with_too_many_open_rounds", 3, lambda wire, message: wire.crash())


# -- states

TAMPERED, UNTRUSTED = "mrtr.state.reject-tampered", "mrtr.state.untrusted"
INTEGRITY, BOUND = "mrtr.state.integrity", "mrtr.state.bind-request"


def trusting(id: str, name: str, is_taken: Callable[[str, str], bool], **settings: Any) -> None:
    """Register a server that takes other texts for the last state that it gave out."""

    def hook(wire: Between) -> None:
        states: list[str] = [""]

        def from_server(message: Message, request: Message) -> Sent:
            found = message.get("result") if isinstance(message.get("result"), dict) else {}
            states.extend([found[STATE]] if STATE in found else [])
            return message

        def from_client(message: Message) -> Sent:
            state = params_of(message).get(STATE)
            if isinstance(state, str) and state not in states and is_taken(state, states[-1]):
                return with_params(message, requestState=states[-1])
            return message

        wire.from_client, wire.from_server = from_client, from_server

    hooked(id, **settings)(named(name, hook))


trusting(TAMPERED, "compares_the_length_of_the_state", lambda one, other: len(one) == len(other))
trusting(TAMPERED, "compares_the_beginning_of_the_state", lambda one, other: one[:50] == other[:50])
trusting(TAMPERED, "ignores_the_seal_of_the_state", lambda one, other: one[:-60] == other[:-60])
trusting(
    UNTRUSTED,
    "takes_any_text_for_its_state",
    lambda one, other: True,
    also={TAMPERED: "an altered state is one of them"},
)
trusting(UNTRUSTED, "takes_short_texts_for_its_state", lambda one, other: len(one) < 20)
trusting(UNTRUSTED, "takes_long_texts_for_its_state", lambda one, other: len(one) > 50_000)


def readable(name: str, encode: Callable[[Any], str], decode: Callable[[str], Any]) -> None:
    """Register a server whose state is readable, with a member that nothing protects."""

    def hook(wire: Between) -> None:
        def from_server(message: Message, request: Message) -> Sent:
            found = message.get("result")
            if isinstance(found, dict) and STATE in found:
                found[STATE] = encode({"user": "guest", "step": 1, "sealed": found[STATE]})
            return message

        def from_client(message: Message) -> Sent:
            state = params_of(message).get(STATE)
            try:
                inner = decode(state)["sealed"] if isinstance(state, str) else None
            except (ValueError, KeyError, TypeError):
                inner = state
            return message if inner is None else with_params(message, requestState=inner)

        wire.from_client, wire.from_server = from_client, from_server

    hooked(INTEGRITY)(named(name, hook))


def to_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def to_base64(value: Any) -> str:
    return base64.b64encode(msgspec.json.encode(value)).decode()


def to_url_base64(value: Any) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(value)).decode().rstrip("=")


def from_base64(state: str) -> Any:
    text = state.replace("+", "-").replace("/", "_")
    return msgspec.json.decode(base64.urlsafe_b64decode(text + "=="))


readable("keeps_its_state_in_plain_json", to_json, msgspec.json.decode)
readable("keeps_its_state_in_base64", to_base64, from_base64)
readable("keeps_its_state_in_base64_for_urls", to_url_base64, from_base64)


def unbound(name: str, is_taken: Callable[[Message, Message], bool]) -> None:
    """Register a server that goes on with the request that a state belongs to."""

    def hook(wire: Between) -> None:
        origins: dict[str, Message] = {}

        def from_server(message: Message, request: Message) -> Sent:
            found = message.get("result")
            if isinstance(found, dict) and STATE in found:
                origins[found[STATE]] = request
            return message

        def from_client(message: Message) -> Sent:
            origin = origins.get(str(params_of(message).get(STATE)))
            if origin is None or not is_taken(message, origin):
                return message
            params = {**params_of(origin), "_meta": params_of(message).get("_meta")}
            given = {STATE: params_of(message)[STATE], RESPONSES: responses_of(message) or {}}
            return message | {"method": origin["method"], "params": params | given}

        wire.from_client, wire.from_server = from_client, from_server

    hooked(BOUND)(named(name, hook))


def same(name: str) -> Callable[[Message, Message], bool]:
    return lambda one, other: params_of(one).get(name) == params_of(other).get(name)


unbound("takes_a_state_for_other_arguments", same("name"))
unbound("takes_a_state_for_another_tool", same("arguments"))
unbound("takes_a_state_for_any_call", lambda one, other: one["method"] == other["method"])


unbreakable("no check waits for minutes until a state expires", "mrtr.state.expiry")
