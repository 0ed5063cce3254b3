"""The actions that the page may ask for: a name, the shape of its params, and a function.

An action names a session by its index. No action takes a command, a module, a path or a variable.
"""

from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar, get_type_hints

import msgspec

from accord_tools.inspector.definition import ActionRefused, SessionKind

if TYPE_CHECKING:
    from accord_tools.inspector.session import InspectedSession

Handler: TypeAlias = Callable[["InspectedSession", Any], Awaitable[object]]
Function = TypeVar("Function", bound=Callable[..., Awaitable[object]])

ACTION_MODULES: Final = (
    "accord_tools.inspector.log.views",
    "accord_tools.inspector.live.session_facts",
    "accord_tools.inspector.live.page_questions",
    "accord_tools.inspector.live.session_parts",
    "accord_tools.inspector.live.subscriptions",
    "accord_tools.inspector.live.task_list",
    "accord_tools.inspector.live.server_catalog",
    "accord_tools.inspector.live.calls",
    "accord_tools.inspector.forms.form_actions",
    "accord_tools.inspector.raw.console",
    "accord_tools.inspector.check_run",
    "accord_tools.inspector.history.call_history",
    "accord_tools.inspector.exports.export_actions",
    "accord_tools.inspector.comparison",
    "accord_tools.inspector.authorization_walk",
)
"""The modules that define actions; imported when the page is served."""
_ALL: Final[tuple[SessionKind, ...]] = ("live", "trace", "watch")


class Action(NamedTuple):
    """An action of the page.

    Attributes:
        name: such as `calls.tool`; the path is `/api/` and the name.
        params: the type that its params are read as.
        run: does it, and returns what the page gets as JSON, or a `Download`.
        kinds: the kinds of sessions that it works on.
    """

    name: str
    params: type[msgspec.Struct]
    run: Handler
    kinds: tuple[SessionKind, ...]


_actions: Final[dict[str, Action]] = {}


def action(
    name: str, *, kinds: tuple[SessionKind, ...] = ("live",)
) -> Callable[[Function], Function]:
    """Define an action: its params are the keywords of a function, or one called `params`.

    Args:
        name: of the action.
        kinds: the kinds of sessions that it works on; `READ` for all.
    """

    def define(run: Function) -> Function:
        _actions[name] = Action(name, *_read_params(run), kinds)
        return run

    return define


def _read_params(run: Function) -> tuple[type[msgspec.Struct], Handler]:
    # The first annotation may be a name that exists for type checkers only.
    hints = get_type_hints(run, localns={"InspectedSession": object})
    params = hints.get("params")
    if isinstance(params, type) and issubclass(params, msgspec.Struct):
        return params, run
    keywords = [
        (name, hints[name]) if each.default is each.empty else (name, hints[name], each.default)
        for name, each in signature(run).parameters.items()
        if each.kind is each.KEYWORD_ONLY
    ]

    async def run_with(session: "InspectedSession", params: Any) -> object:
        found = await run(session, **msgspec.structs.asdict(params))
        return {} if found is None else found

    return msgspec.defstruct(f"{run.__name__}_params", keywords, kw_only=True), run_with


READ: Final = _ALL


def load_actions() -> Mapping[str, Action]:
    """Return all actions by name."""
    for each in ACTION_MODULES:
        import_module(each)
    return _actions


async def perform(session: "InspectedSession", asked: Action, body: bytes) -> object:
    """Run an action with the params of a request.

    Raises:
        ActionRefused: the params are wrong, or the action cannot be done.
    """
    if session.kind not in asked.kinds:
        shown = "a recording" if session.kind == "trace" else "traffic of another client"
        raise ActionRefused(f"this page shows {shown}; {asked.name} needs a connection of its own")
    try:
        params = msgspec.json.decode(body, type=asked.params)
    except msgspec.ValidationError as error:
        raise ActionRefused(f"{asked.name}: {error}") from None
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise ActionRefused(f"{asked.name}: the body is not JSON: {error}") from None
    return await asked.run(session, params)
