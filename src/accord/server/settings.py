"""What an author may say of a server and of its tools."""

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Protocol,
    TypeAlias,
    TypedDict,
    TypeVar,
    get_args,
)

import msgspec

from accord.errors import RegistrationError
from accord.keywords import refuse_unknown
from accord.principal import Principal
from accord.protocol.codec import Limits
from accord.server.access import Policy
from accord.types import Icon, LoggingLevel, ToolAnnotations
from accord.types._base import JsonObject, RevisionId

if TYPE_CHECKING:
    from accord.server.server import Middleware

    Hints: TypeAlias = ToolAnnotations | JsonObject
else:
    # What a dictionary is read into.
    Hints = ToolAnnotations

log = logging.getLogger("accord.server")

# tools.name.charset: what 2025-11-25 recommends and hosts insist on.
_HOST_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")

Details = TypeVar("Details", bound=Mapping[str, object])


class ToolDetails(TypedDict, total=False):
    """What an author may say about a tool; the rest is read from the function.

    Attributes:
        name: what it is called by; the name of the function by default.
        title: a name for people.
        description: what it does; the docstring by default.
        annotations: hints such as `read_only_hint`.
        icons: pictures that stand for it.
        meta: the `_meta` member of its entry.
        input_schema: a JSON Schema of the arguments, listed as it is and enforced, in place of the
            one made from the parameters. `**rest` takes what has no parameter of its own. Needs
            the extra `schema`.
        inline: whether a plain function runs on the event loop rather than in a worker thread.
        timeout: seconds after which a call fails.
        scopes: what a token must hold for the tool to be seen and called.
        replace: whether it takes the place of a tool with the same name.
    """

    name: str
    title: str
    description: str
    annotations: Hints
    icons: list[Icon]
    meta: JsonObject
    input_schema: JsonObject
    inline: bool
    timeout: float
    scopes: Iterable[str]
    replace: bool


class ServerProtection(Protocol):
    """What protects a server over HTTP, such as `accord.auth.Protected`."""

    @property
    def guard(self) -> Callable[..., Any]:
        """Called with an ASGI app, `path` and `public_url`; returns the app to serve instead."""


class ServerSettings(TypedDict, total=False):
    """How a server works, apart from what it offers.

    Attributes:
        auth: protects it over HTTP, such as `accord.auth.Protected`.
        policy: says who may use what, beside scopes: called with the principal and the entry.
        principal: who calls over stdio and in memory, where nobody brings a token.
        step_up: whether callers that lack scopes are told which.
        revisions: those it speaks, all by default.
        middleware: around every request, the first outermost.
        page_size: how many entries a page of a list has.
        limits: what one message may cost.
        in_flight: how many requests of one client may be under way.
        threads: how many sync functions may run at once; those whose calls were cancelled do not
            count, up to 128 of them.
        thread_wait: seconds that a call waits for a thread while none comes free; then it is
            answered with an error that names the functions that hold them.
        ask_timeout: seconds to wait for what is asked of the client.
        log_level: what a client is sent before it asks for a level.
        debug: whether callers see the text of unexpected exceptions.
    """

    auth: ServerProtection
    policy: Policy
    principal: Principal
    step_up: bool
    revisions: Sequence[RevisionId]
    middleware: "Sequence[Middleware]"
    page_size: int
    limits: Limits
    in_flight: int
    threads: int
    thread_wait: float
    ask_timeout: float
    log_level: LoggingLevel
    debug: bool


def check_settings(settings: ServerSettings, *, lifespan: object = None) -> None:
    """Refuse settings that nobody would notice to be wrong before the first client comes.

    Raises:
        TypeError: there is no such setting.
        RegistrationError: a value cannot be right.
    """
    _refuse_settings_of_run(settings)
    refuse_unknown("Server()", settings, (*_FIRST_KEYWORDS, *ServerSettings.__annotations__))
    for name in ("page_size", "in_flight", "threads"):
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
    layers: object = settings.get("middleware", ())
    if not isinstance(layers, Iterable) or not all(map(callable, layers)):
        raise RegistrationError("middleware is a list of functions that take ctx and proceed")
    if lifespan is not None and not callable(lifespan):
        raise RegistrationError(f"lifespan is {lifespan!r}, expected a function of the server")


# The keywords of Server() that are not in ServerSettings.
_FIRST_KEYWORDS: Final = ("version", "title", "instructions", "lifespan")


def _refuse_settings_of_run(settings: Mapping[str, object]) -> None:
    unknown = [name for name in settings if name not in ServerSettings.__annotations__]
    if not unknown:
        return
    from accord.transports.http_options import HttpOptions

    for name in unknown:
        if name in ("transport", "host", "port", *HttpOptions.__struct_fields__):
            raise TypeError(f"Server() has no keyword {name!r}; give it to run()")


def check_texts(**texts: object) -> None:
    """Refuse what a server says of itself unless it is text or, except for the name, None.

    Raises:
        RegistrationError: one of them is something else.
    """
    for name, text in texts.items():
        if not isinstance(text, str) and (text is not None or name == "name"):
            raise RegistrationError(f"{name} is {text!r}, expected text")


# -- what an author says of a tool, resource or prompt


def check_details(call: str, given: Details, kind: type[Details]) -> Details:
    """Return what was said; None says nothing, and an object may be given as a dictionary.

    Raises:
        TypeError: there is no such keyword.
        RegistrationError: a value is of the wrong type.
    """
    refuse_unknown(call, given, kind.__annotations__)
    said = {name: value for name, value in given.items() if value is not None}
    try:
        read = msgspec.convert(said, kind)
    except msgspec.ValidationError as error:
        text, _, place = str(error).partition(" - at `$.")
        where = place.rstrip("`") or "its keywords"
        text = text[:1].lower() + text[1:].replace("`", "")
        raise RegistrationError(f"{call}: {where}: {text}") from None
    for name, value in read.items():
        given_value = said[name]
        if isinstance(value, msgspec.Struct) and isinstance(given_value, dict):
            refuse_unknown(f"{call}: {name}", given_value, type(value).__struct_encode_fields__)
    return read


def check_name(name: str, where: str) -> str:
    """Return a name that can be called.

    Raises:
        RegistrationError: there is none.
    """
    if not name or name == "<lambda>":
        raise RegistrationError(f"{where} has no name; give name=...")
    return name


def warn_about_tool(name: str, description: str | None) -> None:
    """Log what hosts refuse in a tool, or what leaves a model without help."""
    if _HOST_NAME.fullmatch(name) is None:
        log.warning(
            "tool %r: hosts refuse this name; use 1 to 128 letters, digits, _, - and .", name
        )
    if not description:
        log.warning(
            "tool %r has no description, so models see its name alone; write a docstring", name
        )
