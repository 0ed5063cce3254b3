"""A call as commands of curl: the handshake of the revision, then the request."""

from shlex import quote

from accord.http.rules.request_headers import request_headers
from accord.protocol.revisions import REVISIONS
from accord.types import RevisionId
from accord_tools.inspector.exports.exported_call import ExportedCall
from accord_tools.inspector.exports.target_words import quote_for_shell
from accord_tools.inspector.exports.wire_text import (
    call_message,
    initialized_message,
    opening_message,
)
from accord_tools.inspector.target_access import TOKEN_VARIABLE, SafeTarget

# Prints the session id that a server assigns, if it does.
_SESSION = "tr -d '\\r' | sed -n 's/^[Mm][Cc][Pp]-[Ss]ession-[Ii][Dd]: *//p'"


def curl_form(call: ExportedCall, safe: SafeTarget, revision: RevisionId) -> str:
    """Return a script for a shell that makes a call with curl.

    Args:
        call: the call.
        safe: a server with a URL.
        revision: the revision to speak.
    """
    row = REVISIONS[revision]
    message = call_message(call, revision, id=1)
    lines = [f"URL={quote_for_shell(safe.url)}"]
    if not row.handshake:
        repeated = request_headers(message.encode(errors="replace"), lambda _: ())
        lines.append(_request(safe, message, [f"{key}: {text}" for key, text in repeated.items()]))
        return "\n".join(lines) + "\n"
    version = [f"MCP-Protocol-Version: {row.id}"] if row.version_header else []
    session = '${SESSION:+-H "Mcp-Session-Id: $SESSION"}'
    opening = _request(safe, opening_message(revision), [], before="-D - -o /dev/null")
    lines += [
        f"SESSION=$({opening} | {_SESSION})",
        _request(safe, initialized_message(), version, after=session),
        _request(safe, message, version, after=session),
    ]
    return "\n".join(lines) + "\n"


def _request(
    safe: SafeTarget, message: str, headers: list[str], *, before: str = "", after: str = ""
) -> str:
    words = ["curl -sS -N", before, '"$URL"']
    usual = ["Content-Type: application/json", "Accept: application/json, text/event-stream"]
    given = [f"{name}: {value}" for name, value in safe.headers.items()]
    words += [f"-H {quote_for_shell(each)}" for each in (*usual, *given)]
    words += [f"-H {quote(each)}" for each in headers]
    if safe.has_token or safe.has_sign_in:
        words.append(f'-H "Authorization: Bearer ${TOKEN_VARIABLE}"')
    words += [after, f"--data-binary {quote(message)}"]
    return " ".join(filter(None, words))
