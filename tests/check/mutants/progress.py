"""Servers that report progress wrongly, or ask for it wrongly."""

from typing import Any

from check.faults import named
from check.mutants.foundation import Between, Message, Sent, interloper, mutant, params_of
from check.mutants.spoiling import ABSENT, Circumstances, wrong

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


@mutant("progress.rate-limited")
def reports_without_a_pause(message: Message, request: Message) -> Sent:
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


# -- the same rows, broken in other ways


@mutant("progress.notification.token")
def calls_the_token_by_another_name(message: Message, request: Message) -> Message:
    if message.get("method") == PROGRESS:
        message["params"]["token"] = message["params"].pop("progressToken")
    return message


OWN: Circumstances = {"of": "params"}
LATE: Circumstances = {"of": "params", "since": 2}
wrong("progress.notification.token", PROGRESS, "progressToken", ABSENT, LATE)
wrong("progress.token.type", PROGRESS, "progressToken", {"id": 1}, OWN)
wrong("progress.token.type", PROGRESS, "progressToken", True, LATE)
wrong("progress.token.type", PROGRESS, "progressToken", None, OWN)
wrong("progress.notification.progress", PROGRESS, "progress", ABSENT, OWN)
wrong("progress.notification.progress", PROGRESS, "progress", None, LATE)
wrong("progress.notification.progress", PROGRESS, "progress", True, OWN)
wrong("progress.notification.total", PROGRESS, "total", None, LATE)
wrong("progress.notification.total", PROGRESS, "total", [3], OWN)
wrong("progress.notification.message", PROGRESS, "message", None, LATE)
wrong("progress.notification.message", PROGRESS, "message", {"en": "half"}, OWN)


def falls_back(progress: Any) -> Any:
    return -progress


def is_repeated(progress: Any) -> Any:
    return 1


wrong("progress.value.increases", PROGRESS, "progress", falls_back, OWN)
wrong("progress.value.increases", PROGRESS, "progress", is_repeated, LATE)


@mutant("progress.value.increases")
def sends_each_report_twice(message: Message, request: Message) -> Sent:
    return [message, message] if message.get("method") == PROGRESS else message


def renaming(name: str, method: str) -> None:
    """Register a server that reports progress by another name."""

    def change(message: Message, request: Message) -> Message:
        return message | {"method": method} if message.get("method") == PROGRESS else message

    mutant("progress.notification.method-name")(named(name, change))


renaming("reports_as_editors_do", "$/progress")
renaming("reports_in_the_area_of_tools", "notifications/tools/progress")


def confuses(token: Any) -> Any:
    return str(token) if isinstance(token, int) else token


wrong("progress.notification.active-only", PROGRESS, "progressToken", confuses, OWN)


@interloper("progress.notification.active-only")
def reports_under_the_id_of_the_request(wire: Between) -> None:
    def from_server(message: Message, request: Message) -> Sent:
        if message.get("method") == PROGRESS:
            ids = [each["id"] for each in wire.requests.values() if each["method"] == "tools/call"]
            message["params"]["progressToken"] = ids[-1]
        return message

    wire.from_server = from_server


@mutant("progress.stops-after-completion")
def reports_once_more_at_the_end(message: Message, request: Message) -> Sent:
    params = params_of(message)
    if message.get("method") == PROGRESS and params.get("progress") == params.get("total"):
        more = params | {"progress": params["progress"] + 1}
        return [message, message | {"params": more}]
    return message


@mutant("progress.stops-after-completion")
def begins_with_what_is_done(message: Message, request: Message) -> Message:
    return changed(message, total=0)


def flooding(name: str, steps: int, tool: str) -> None:
    """Register a server that floods the client with reports about one tool."""

    def hook(wire: Between) -> None:
        def from_server(message: Message, request: Message) -> Sent:
            params = params_of(request)
            token = (params.get("_meta") or {}).get("progressToken")
            if params.get("name") != tool or token is None:
                return message
            reports = [
                {
                    "jsonrpc": "2.0",
                    "method": PROGRESS,
                    "params": {"progressToken": token, "progress": 1000 + number},
                }
                for number in range(steps)
            ]
            return [*reports, message]

        wire.from_server = from_server

    interloper("progress.rate-limited")(named(name, hook))


flooding("floods_at_the_end_of_a_call", 250, "greet")
flooding("floods_in_a_tool_that_is_quick", 400, "health_status")


def asking_for(id: str, name: str, method: str, **params: Any) -> None:
    """Register a server that asks for progress in its own way."""

    def change(message: Message, request: Message) -> Message:
        if message.get("method") == method:
            message["params"] = params_of(message) | params
        return message

    mutant(id, areas=["timeouts"])(named(name, change))


asking_for(
    "progress.token.in-meta",
    "puts_the_token_beside_the_messages",
    "sampling/createMessage",
    progressToken=7,
)
asking_for(
    "progress.token.in-meta",
    "puts_the_token_beside_the_form",
    "elicitation/create",
    progressToken="own",
)
asking_for(
    "progress.token.type",
    "asks_with_an_object_as_token",
    "sampling/createMessage",
    _meta={"progressToken": {}},
)


@interloper("progress.token.unique", areas=["timeouts"])
def uses_each_token_twice(wire: Between) -> None:
    questions: list[str] = []

    def from_server(message: Message, request: Message) -> Sent:
        if message.get("method") in ("sampling/createMessage", "roots/list"):
            token = len(questions) // 2
            questions.append(message["method"])
            message["params"] = params_of(message) | {"_meta": {"progressToken": token}}
        return message

    wire.from_server = from_server


asking_for(
    "progress.token.unique",
    "uses_one_number_for_all",
    "sampling/createMessage",
    _meta={"progressToken": 0},
)
