"""What to do about a server that cannot be reached, in the words of `accord doctor`."""

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from accord.errors import AccordError, AuthError, ConnectFailed, FlowFailed, Forbidden
from accord_tools.hosts.checking.advice import advise_program, advise_start
from accord_tools.inspector.definition import InspectTarget

RUN_ERROR: Final = "accord: "
"""How `accord run` begins the line that says why it ends."""
# What `accord run` says about servers of other libraries.
_ANY_COMMAND: Final = "a command works with any: -- "
# Parts of messages in lower case, and what to do about them; the first that fits.
_ADDRESS_ADVICE: Final = (
    (("connection refused",), "start the server, and check that it listens at {place}"),
    (("not known", "no address associated"), "correct the name of the host: {place}"),
    (("does not speak tls",), "write http:// in place of https://"),
    (
        ("certificate", "ssl"),
        "mend the certificate of the server, or trust it: SSL_CERT_FILE=FILE accord inspect ...",
    ),
    (("redirects",), "start accord inspect with the URL that the server redirects to"),
    (("http 404", "http 405"), "check the path of the URL: {path} serves no MCP"),
    (
        ("http 403",),
        "check the credentials, and that the server allows requests with the host {place}",
    ),
    (("http 5",), "look at what the server itself has logged, then connect again"),
    (("we offered",), "choose another revision, or let it be negotiated"),
    (("closed the connection",), "check the scheme of the URL: does {place} want https://?"),
    ((" within ", "timed out"), "check that {place} answers; --timeout gives it more time"),
)


def is_own_run(target: InspectTarget) -> bool:
    """Return whether `accord run` launches the server: the user named a file or module."""
    return bool(target.command and target.shown) and not target.shown.startswith("-")


def advise_connection(target: InspectTarget, error: AccordError, stderr: Sequence[str]) -> str:
    """Return what to do about a connection that failed."""
    if isinstance(error, AuthError):
        return _advise_access(error)
    text = str(error)
    if target.url:
        return _advise_address(target, text)
    if "was not found" in text or "may not be executed" in text:
        return advise_program(target.command[0] if target.command else "")
    if "no answer to" in text:
        return "check that the command serves MCP over stdio; a first start may need more time"
    if "we offered" in text:
        return "choose another revision, or let it be negotiated"
    exited = isinstance(error, ConnectFailed) and error.exit_code is not None
    if exited or stderr:
        if is_own_run(target) and stderr and stderr[-1].startswith(RUN_ERROR):
            return _advise_run(target, stderr[-1])
        advice = advise_start(stderr, ())
        return f"{advice}; it starts anew when its code changes" if target.folders else advice
    return "look at the messages in the log"


def _advise_run(target: InspectTarget, said: str) -> str:
    _, sign, command = said.partition(_ANY_COMMAND)
    if sign:  # a server of another library
        return f"start accord inspect -- {command}"
    return "mend the code; it starts anew then" if target.folders else "mend the code, then restart"


def _advise_access(error: AuthError) -> str:
    if isinstance(error, FlowFailed):
        return error.hint or "go through the steps of the authorization pane"
    if isinstance(error, Forbidden):
        return "ask for the scopes that the server names, in the authorization pane"
    return "start accord inspect with --oauth or --bearer, or use the authorization pane"


def _advise_address(target: InspectTarget, text: str) -> str:
    place = urlsplit(target.url).netloc.rpartition("@")[2]
    lower = text.lower()
    for signs, advice in _ADDRESS_ADVICE:
        if any(each in lower for each in signs):
            return advice.format(place=place, path=urlsplit(target.url).path or "/")
    return f"check that {place} serves MCP at this path"
