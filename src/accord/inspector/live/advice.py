"""What to do about a server that cannot be reached, in the words of `accord doctor`."""

from collections.abc import Sequence
from urllib.parse import urlsplit

from accord.errors import AccordError, AuthError, ConnectFailed, FlowFailed, Forbidden
from accord.hosts.checking.advice import advise_program, advise_start
from accord.inspector.definition import InspectTarget


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
        return advise_start(stderr, ())
    return "look at the messages in the log"


def _advise_access(error: AuthError) -> str:
    if isinstance(error, FlowFailed):
        return error.hint or "go through the steps of the authorization pane"
    if isinstance(error, Forbidden):
        return "ask for the scopes that the server names, in the authorization pane"
    return "start accord inspect with --oauth or --bearer, or use the authorization pane"


def _advise_address(target: InspectTarget, text: str) -> str:
    place = urlsplit(target.url).netloc.rpartition("@")[2]
    if "refused" in text.lower() and "connect" in text.lower():
        return f"start the server, and check that it listens at {place}"
    if "404" in text or "405" in text:
        return f"check the path of the URL: {urlsplit(target.url).path or '/'} serves no MCP"
    if "certificate" in text.lower() or "ssl" in text.lower():
        return "mend the certificate of the server, or the clock of this machine"
    if "we offered" in text:
        return "choose another revision, or let it be negotiated"
    return f"check that {place} serves MCP at this path"
