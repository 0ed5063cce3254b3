"""Servers that report progress wrongly, or ask for it wrongly."""

from typing import Any

from check.mutants.foundation import Between, Message, Sent, interloper, mutant, params_of

PROGRESS = "notifications/progress"


def changed(report: Message, /, **params: Any) -> Message:
    if report.get("method") == PROGRESS:
        report["params"].update(params)
    return report


@mutant("progress.notification.token")
def leaves_the_token_out(message: Message, request: Message) -> Message:
    if message.get("method") == PROGRESS:
        del message["params"]["progressToken"]
    return message


@mutant("progress.token.type")
def makes_a_fraction_of_the_token(message: Message, request: Message) -> Message:
    return changed(message, progressToken=1.5)


@mutant("progress.notification.progress")
def reports_in_words(message: Message, request: Message) -> Message:
    return changed(message, progress="half")


@mutant("progress.notification.total")
def names_the_total_in_words(message: Message, request: Message) -> Message:
    return changed(message, total="ten")


@mutant("progress.notification.message")
def reports_a_message_that_is_a_list(message: Message, request: Message) -> Message:
    return changed(message, message=["half"])


@mutant("progress.value.increases")
def does_not_come_forward(message: Message, request: Message) -> Message:
    return changed(message, progress=0.5)


@mutant("progress.stops-after-completion")
def goes_on_after_its_total(message: Message, request: Message) -> Message:
    return changed(message, total=1)


@mutant("progress.notification.method-name")
def reports_by_another_name(message: Message, request: Message) -> Message:
    if message.get("method") == PROGRESS:
        message["method"] = "progress"
    return message


@mutant("progress.notification.active-only")
def reports_after_the_answer(message: Message, request: Message) -> Sent:
    params = params_of(request)
    token = (params.get("_meta") or {}).get("progressToken")
    if request.get("method") == "tools/call" and token is not None:
        late = {"progressToken": token, "progress": 1000}
        return [message, {"jsonrpc": "2.0", "method": PROGRESS, "params": late}]
    return message


@mutant("progress.notification.active-only")
def reports_what_nobody_asked_for(message: Message, request: Message) -> Sent:
    if request.get("method") == "tools/call":
        uninvited = {"progressToken": "uninvited", "progress": 1}
        return [{"jsonrpc": "2.0", "method": PROGRESS, "params": uninvited}, message]
    return message


@interloper("progress.rate-limited")
def reports_without_a_pause(wire: Between) -> None:
    def from_server(message: Message, request: Message) -> Sent:
        params = params_of(message)
        if message.get("method") != PROGRESS or params.get("progress") != 1:
            return message
        token, steps = params["progressToken"], 300
        return [
            {
                "jsonrpc": "2.0",
                "method": PROGRESS,
                "params": {"progressToken": token, "progress": number / steps},
            }
            for number in range(steps)
        ]

    wire.from_server = from_server


# -- what the server asks for


def asking(message: Message, **params: Any) -> Message:
    if message.get("method") in ("sampling/createMessage", "roots/list"):
        message["params"] = params_of(message) | params
    return message


@mutant("progress.token.in-meta")
def puts_the_token_beside_the_parameters(message: Message, request: Message) -> Message:
    return asking(message, progressToken="own")


@mutant("progress.token.unique", areas=["timeouts"])
def uses_one_token_for_all(message: Message, request: Message) -> Message:
    return asking(message, _meta={"progressToken": "own"})
