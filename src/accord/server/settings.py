"""The keywords of `Server()`, and of its tools, resources and prompts, with their checks."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from string import ascii_letters, digits
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Literal,
    Protocol,
    TypeAlias,
    TypedDict,
    TypeVar,
    get_args,
)

import msgspec

from accord.errors import RegistrationError, lower_first, refuse_unknown
from accord.principal import Principal
from accord.protocol.codec import Limits
from accord.protocol.revisions import REVISIONS
from accord.server.access import Policy
from accord.server.caching import CacheHints
from accord.types import Icon, Implementation, LoggingLevel, ToolAnnotations
from accord.types._base import JsonObject, RevisionId

if TYPE_CHECKING:
    from accord.server.middleware import Middleware
    from accord.server.tasks import TaskSettings

    Hints: TypeAlias = ToolAnnotations | JsonObject
else:
    # A dictionary is converted to this.
    Hints = ToolAnnotations

log = logging.getLogger("accord.server")

# tools.name.charset: recommended by 2025-11-25, and required by hosts.
_HOST_CHARACTERS: Final = frozenset(f"{ascii_letters}{digits}_.-")
_HOST_LENGTH: Final = 128

# As long as the digest of the seal that is made with it.
_KEY_LENGTH: Final = 32

Details = TypeVar("Details", bound=Mapping[str, object])


class EntryDetails(TypedDict, total=False):
    """Details of a tool, resource or prompt.

    Attributes:
        name: its name for programs; that of the function by default.
        title: its name for people.
        description: what it does or holds; the docstring by default.
        icons: pictures for it.
        meta: the `_meta` member of its entry.
        scopes: what a token must have for it to be listed and used.
        tags: words by which `show`, `hide` and a policy find it; clients do not see them.
        replace: whether it replaces an entry with the same name or URI.
    """

    name: str
    title: str
    description: str
    icons: list[Icon]
    meta: JsonObject
    scopes: Iterable[str]
    tags: Iterable[str]
    replace: bool


class ToolDetails(EntryDetails, total=False):
    """Details of a tool; the rest is read from the function.

    Attributes:
        annotations: hints such as `read_only_hint`.
        input_schema: a JSON Schema of the arguments, listed unchanged and enforced, in place of
            the one made from the parameters. `**rest` takes arguments without a parameter of their
            own. Needs the extra `schema`.
        output_schema: a JSON Schema of the structured result, listed unchanged, in place of the
            one made from the return type. Results are validated, with the extra `schema` fully.
        inline: whether a plain function runs on the event loop rather than in a worker thread.
        timeout: seconds after which a call fails.
        strict: whether `"5"` is refused for a number, and other text for what is not text. By
            default such arguments are read, since hosts send them.
        task: whether a call may become a task, whose result is fetched later: "optional" where the
            client wants it, in 2026-07-28 after a second (`TaskSettings.grace`); "required"
            always. Without it, and for clients of revisions that have
            no tasks, calls are answered directly.
        ask_first: whether the task begins with `ctx.start_task()` rather than at once, where the
            server decides; questions before it are asked before the task begins.
        idempotent: whether a call may run twice without harm. Where workers share a store, a call
            whose worker is lost runs again on another one; without it, such a call fails.
    """

    annotations: Hints
    input_schema: JsonObject
    output_schema: JsonObject
    inline: bool
    timeout: float
    strict: bool
    task: Literal["optional", "required"]
    ask_first: bool
    idempotent: bool


class ServerProtection(Protocol):
    """Protects a server over HTTP, such as `accord.auth.Protected`."""

    @property
    def guard(self) -> Callable[..., Any]:
        """Called with an ASGI app, `path` and `public_url`; returns the app to serve instead."""


class ServerSettings(TypedDict, total=False):
    """Settings of a server.

    Attributes:
        description: what it is for, for people; clients of older revisions do not get it, nor the
            icons and the website.
        icons: pictures for it, by an https or data URL.
        website_url: where to read about it.
        auth: protects it over HTTP, such as `accord.auth.Protected`.
        policy: called with the principal and an entry; says whether it may be used, beside scopes.
        principal: the caller over stdio and in memory, where there are no tokens.
        step_up: whether the error for missing scopes names them.
        revisions: the protocol revisions it speaks, all by default.
        middleware: around every request, the first outermost.
        page_size: how many entries a page of a list has at most.
        cache: how long clients may keep lists and resources.
        limits: size and depth of one message.
        in_flight: how many requests of one client may be under way.
        subscriptions: how many `subscriptions/listen` requests of one connection may be open.
        threads: how many sync functions may run at once; up to 128 whose calls were cancelled do
            not count.
        thread_wait: seconds that a call waits for a thread; then it fails with an error that names
            the functions that hold the threads.
        ask_timeout: seconds to wait for the client's answer to a request.
        state_keys: seal what clients of 2026-07-28 carry from a question to its answer; the first
            seals, all of them open. Processes that serve together share them. By default one is
            made at random.
        state_lifetime: seconds within which the answer has to arrive there.
        tasks: how long tasks are kept and where, see `accord.server.tasks.TaskSettings`.
        log_level: the level of logs that a client gets before it asks for one.
        strict: whether tools refuse text for numbers, booleans, objects and arrays, unless a tool
            says otherwise.
        debug: whether callers see the text of unexpected exceptions.
    """

    description: str
    icons: Sequence[Icon | JsonObject]
    website_url: str
    auth: ServerProtection
    policy: Policy
    principal: Principal
    step_up: bool
    revisions: Sequence[RevisionId]
    middleware: "Sequence[Middleware]"
    page_size: int
    cache: CacheHints
    limits: Limits
    in_flight: int
    subscriptions: int
    threads: int
    thread_wait: float
    ask_timeout: float
    state_keys: Sequence[str | bytes]
    state_lifetime: float
    tasks: "TaskSettings"
    log_level: LoggingLevel
    strict: bool
    debug: bool


def check_settings(settings: ServerSettings, *, lifespan: object = None) -> None:
    """Refuse invalid settings when the server is made, rather than at the first request.

    Raises:
        TypeError: a setting does not exist.
        RegistrationError: a value is invalid.
    """
    _refuse_settings_of_run(settings)
    refuse_unknown("Server()", settings, (*_FIRST_KEYWORDS, *ServerSettings.__annotations__))
    for name in ("page_size", "in_flight", "subscriptions", "threads"):
        value = settings.get(name, 1)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise RegistrationError(f"{name} is {value!r}, expected an integer of at least 1")
    wait: object = settings.get("thread_wait", 1.0)
    if isinstance(wait, bool) or not isinstance(wait, int | float) or not wait > 0:
        raise RegistrationError(f"thread_wait is {wait!r}, expected seconds, more than 0")
    level = settings.get("log_level", "info")
    if level not in get_args(LoggingLevel):
        levels = ", ".join(get_args(LoggingLevel))
        raise RegistrationError(f"log_level is {level!r}, expected one of {levels}")
    _check_state(settings)
    cache: object = settings.get("cache", CacheHints())
    if not isinstance(cache, CacheHints):
        raise RegistrationError(f"cache is {cache!r}, expected CacheHints, as CacheHints(tools=60)")
    auth: object = settings.get("auth")
    if auth is not None and not callable(getattr(auth, "guard", None)):
        name = type(auth).__name__
        remedy = (
            f"write auth=Protected({name}(...))" if hasattr(auth, "verify") else "see docs/auth.md"
        )
        raise RegistrationError(
            f"auth is a {name}, expected Protected or AuthorizationServer of accord.auth; {remedy}"
        )
    if "tasks" in settings:
        from accord.server.tasks.task_store import TaskSettings

        tasks: object = settings["tasks"]
        if not isinstance(tasks, TaskSettings):
            raise RegistrationError(
                f"tasks is {tasks!r:.80}, expected TaskSettings, as TaskSettings(store=...)"
            )
    layers: object = settings.get("middleware", ())
    if not isinstance(layers, Iterable) or not all(map(callable, layers)):
        raise RegistrationError("middleware is a list of functions that take ctx and proceed")
    if lifespan is not None and not callable(lifespan):
        raise RegistrationError(f"lifespan is {lifespan!r}, expected a function of the server")


# The keywords of Server() that are not in ServerSettings.
_FIRST_KEYWORDS: Final = ("version", "title", "instructions", "lifespan")


def _check_state(settings: ServerSettings) -> None:
    lifetime: object = settings.get("state_lifetime", 1.0)
    if isinstance(lifetime, bool) or not isinstance(lifetime, int | float) or not lifetime > 0:
        raise RegistrationError(f"state_lifetime is {lifetime!r}, expected seconds, more than 0")
    if "state_keys" not in settings:
        return
    keys: object = settings["state_keys"]
    if isinstance(keys, str | bytes) or not isinstance(keys, Sequence) or not keys:
        raise RegistrationError("state_keys: expected a list of at least one key")
    for key in keys:
        if not isinstance(key, str | bytes) or len(key) < _KEY_LENGTH:
            raise RegistrationError(
                f"a key of state_keys is too short, expected text or bytes of at least "
                f"{_KEY_LENGTH}; make one with secrets.token_hex(32)"
            )


def _refuse_settings_of_run(settings: Mapping[str, object]) -> None:
    unknown = [name for name in settings if name not in ServerSettings.__annotations__]
    if not unknown:
        return
    from accord.http.settings import ListenSettings

    for name in unknown:
        if name == "transport" or name in ListenSettings.__annotations__:
            raise TypeError(f"Server() has no keyword {name!r}; give it to run()")


_SERVED: Final[tuple[RevisionId, ...]] = tuple(row.id for row in REVISIONS.values())


def check_revisions(revisions: Iterable[str] | None) -> tuple[RevisionId, ...]:
    """Return the revisions to serve, oldest first; all of them by default.

    Raises:
        ValueError: the list is empty, or a revision unknown.
    """
    if revisions is None:
        return _SERVED
    asked = (revisions,) if isinstance(revisions, str) else tuple(revisions)
    if not asked:
        raise ValueError("revisions is empty, expected at least one")
    for each in asked:
        if each not in _SERVED:
            raise ValueError(f"revision {each!r} is not served; choose from {', '.join(_SERVED)}")
    return tuple(each for each in _SERVED if each in asked)


def check_texts(**texts: object) -> None:
    """Refuse names and descriptions that are not text; only the name is required.

    Raises:
        RegistrationError: one of them is something else.
    """
    for name, text in texts.items():
        if not isinstance(text, str) and (text is not None or name == "name"):
            raise RegistrationError(f"{name}: expected text, got {text!r}")


def build_info(
    name: str, version: str, title: str | None, settings: ServerSettings
) -> Implementation:
    """Return how a server introduces itself.

    Raises:
        RegistrationError: a value is invalid.
    """
    website, icons = settings.get("website_url"), settings.get("icons")
    description = settings.get("description")
    check_texts(name=name, version=version, title=title)
    check_texts(description=description, website_url=website)
    if website is not None and not website.lower().startswith(("https://", "http://")):
        raise RegistrationError(f"website_url is {website!r}, expected an https URL")
    try:
        read = None if icons is None else msgspec.convert(list(icons), list[Icon])
    except (msgspec.ValidationError, TypeError) as error:
        raise RegistrationError(f"icons: {lower_first(error)}") from None
    check_icons("icons", read)
    return Implementation(
        name, version, title=title, description=description, icons=read, website_url=website
    )


def check_icons(where: str, icons: Sequence[Icon] | None) -> None:
    """Refuse icons that clients may not fetch.

    Raises:
        RegistrationError: one of them is not an https, http or data URL.
    """
    for icon in icons or ():
        if not icon.src.lower().startswith(("https://", "http://", "data:")):  # icons.src-required
            raise RegistrationError(f"{where}: src is {icon.src!r}, expected an https or data URL")


# -- details of tools, resources and prompts


def check_details(call: str, given: Details, kind: type[Details]) -> Details:
    """Return the details that were given, with dictionaries converted to objects.

    Raises:
        TypeError: a keyword does not exist.
        RegistrationError: a value is of the wrong type.
    """
    if not given:
        return given
    refuse_unknown(call, given, kind.__annotations__)
    present = {name: _plain(value) for name, value in given.items() if value is not None}
    try:
        read = msgspec.convert(present, kind)
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at `$.")
        where = path.rstrip("`") or "its keywords"
        text = lower_first(text.replace("`", ""))
        choices = get_args(kind.__annotations__.get(where))
        if text.startswith("invalid enum value") and choices:
            text = f"{text}, expected {' or '.join(map(repr, choices))}"
        raise RegistrationError(f"{call}: {where}: {text}") from None
    check_icons(f"{call}: icons", read.get("icons"))  # type: ignore[arg-type]  # converted above
    for name, value in read.items():
        given_value = present[name]
        if isinstance(value, msgspec.Struct) and isinstance(given_value, dict):
            refuse_unknown(f"{call}: {name}", given_value, type(value).__struct_encode_fields__)
    return read


def _plain(value: Any) -> Any:
    """Return annotations and icons of other libraries, which are pydantic models, as JSON data."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return value


def check_name(name: str, kind: str, function: object) -> str:
    """Return a name that clients can use.

    Args:
        name: of a tool or prompt.
        kind: what it is called in errors.
        function: says where it is, in errors.

    Raises:
        RegistrationError: the name is empty, or that of a lambda.
    """
    if not name or name == "<lambda>":
        from accord.server.entries.entry import source_location

        raise RegistrationError(
            f"the {kind} at {source_location(function)} has no name; give name=..."
        )
    return name


def check_tool(name: str, details: ToolDetails, *, is_async: bool) -> None:
    """Refuse details of a tool that contradict each other.

    Raises:
        RegistrationError: they do.
    """
    if details.get("inline") and is_async:
        raise RegistrationError(f"tool {name!r}: inline is for functions that are not async")
    if details.get("inline") and "task" in details:
        raise RegistrationError(f"tool {name!r}: inline is for short work, and task for long")
    if details.get("ask_first") and "task" not in details:
        raise RegistrationError(f"tool {name!r}: ask_first is for tools with task=...")
    timeout = details.get("timeout")
    if timeout is not None and timeout <= 0:
        raise RegistrationError(f"tool {name!r}: timeout is {timeout:g}, expected more than 0")


def warn_about_tool(name: str, *, is_described: bool) -> None:
    """Warn about a name that hosts refuse, or a missing description."""
    if len(name) > _HOST_LENGTH or not _HOST_CHARACTERS.issuperset(name):
        log.warning(
            "tool %r: hosts refuse this name; use 1 to 128 letters, digits, _, - and .", name
        )
    if not is_described:
        log.warning(
            "tool %r has no description, so models see its name alone; write a docstring", name
        )
