"""A call in other forms: a command line, a case, Python, curl, JSON.

Secrets are named, never written.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from shlex import quote
from typing import Any, Final

import msgspec

from accord.client.server_spec import ServerSpec
from accord.http.rules.request_headers import request_headers
from accord.protocol.revisions import HANDSHAKE, REVISIONS
from accord.trace import is_masked
from accord.types import JsonObject, RevisionId
from accord_tools.check.probing.messages import initialize_params
from accord_tools.hosts.definition import HostsError
from accord_tools.hosts.documents.value_texts import format_pair, without_nulls
from accord_tools.inspector.differences import NumberText, parse_exactly, print_exactly
from accord_tools.inspector.exports.exported_call import ExportedCall
from accord_tools.inspector.raw.templates import CLIENT_INFO, name_client
from accord_tools.inspector.target_access import (
    TOKEN_VARIABLE,
    command_end,
    connection_options,
    has_placeholder,
    has_token,
    placeholder_names,
    quote_for_python,
    quote_for_shell,
    target_word,
)

_VERBS: Final = {"tool": "call", "resource": "read", "prompt": "prompt"}
# A longer text is expected by its beginning.
_TEXT_MOST: Final = 2_000
_BEGINNING: Final = 200


def case_form(call: ExportedCall, safe: ServerSpec, chosen: str) -> tuple[str, str, str] | None:
    """Return a file with one case, its language and a note; None if cases have no such call.

    TOML has no null; a case with one is written as YAML.
    """
    verb = _VERBS.get(call.kind)
    if verb is None or not call.response:
        return None
    case: JsonObject = {"name": call.name, verb: call.name}
    arguments = _decode(call.arguments)
    if isinstance(arguments, dict) and arguments and verb != "read":
        case["arguments"] = arguments
    expected = _expectation(call)
    if expected:
        case["expect"] = expected
    server, note = _case_server(safe, chosen)
    try:
        if without_nulls(arguments) != arguments:
            raise HostsError("TOML has no null")
        return _as_toml(server, case), "toml", note
    except HostsError:
        document = json.dumps({**server, "case": [case]}, indent=2, ensure_ascii=False)
        return f"{document}\n", "yaml", "; ".join(filter(None, [note, "save it as .yaml"]))


def _case_server(safe: ServerSpec, chosen: str) -> tuple[JsonObject, str]:
    server: JsonObject = {}
    notes = []
    if safe.url:
        server["target"] = safe.url
    elif safe.shown:
        server["target"] = _absolute(safe.shown)
    else:
        server["command"] = list(safe.command)
    if chosen in HANDSHAKE:
        server["revision"] = chosen
    # Only the call, not tests of everything that the server declares.
    server["contract"] = False
    if any(map(has_placeholder, [safe.url, *safe.command])):
        notes.append("put values in the places of ${env:...}")
    options = connection_options(safe)
    if options:
        notes.append(f"run it with: accord test --cases FILE {' '.join(options)}")
    return server, "; ".join(notes)


def _absolute(shown: str) -> str:
    """Return a target that works in any folder: the path of a file in full."""
    file, colon, name = shown.rpartition(":")
    if not colon:
        file, name = shown, ""
    path = Path(file)
    return f"{path.absolute()}{colon}{name}" if path.is_file() else shown


def _as_toml(server: JsonObject, case: JsonObject) -> str:
    lines = [format_pair(name, value) for name, value in server.items()]
    lines += ["", "[[case]]"]
    lines += [format_pair(name, value) for name, value in case.items()]
    return "\n".join(lines) + "\n"


def _decode(text: str) -> Any:
    try:
        return msgspec.json.decode(text or "{}")
    except (ValueError, RecursionError):
        return {}


# -- what came


def _expectation(call: ExportedCall) -> JsonObject:
    """Return what to expect: as much of the actual answer as is the same the next time."""
    answer = _decode(call.response) if call.is_complete else None
    if not isinstance(answer, dict):
        return {}
    if isinstance(answer.get("code"), int) and isinstance(answer.get("message"), str):
        return {"code": answer["code"]}
    if answer.get("isError") is True:
        return {"error": True}
    structured = answer.get("structuredContent")
    if isinstance(structured, dict) and structured and not _has_null_in_list(structured):
        found = without_nulls(structured)
        if not is_masked(found):
            return {"partly": found}
    text = _text_of(answer)
    if not text or is_masked(text):
        return {}
    if len(text) <= _TEXT_MOST:
        return {"text": text}
    return {"contains": text[:_BEGINNING]}


def _has_null_in_list(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(_has_null_in_list, value.values()))
    if isinstance(value, list):
        return any(each is None or _has_null_in_list(each) for each in value)
    return False


def _text_of(answer: JsonObject) -> str:
    """Return the text of all content, line by line, as cases compare it."""
    if isinstance(answer.get("contents"), list):
        parts = answer["contents"]
    elif isinstance(answer.get("messages"), list):
        parts = [each.get("content") for each in answer["messages"] if isinstance(each, dict)]
    else:
        parts = answer.get("content")
    found = []
    for part in parts if isinstance(parts, list) else ():
        if not isinstance(part, dict):
            continue
        inner = part.get("resource") if part.get("type") == "resource" else part
        text = inner.get("text") if isinstance(inner, dict) else None
        if isinstance(text, str):
            found.append(text)
    return "\n".join(found)


_METHODS = {"tool": "tools/call", "resource": "resources/read", "prompt": "prompts/get"}


def call_message(call: ExportedCall, revision: RevisionId, *, id: int = 1) -> str:
    """Return the request of a call as JSON text on one line."""
    method = _METHODS.get(call.kind, call.name)
    row = REVISIONS[revision]
    # Arguments stay text, so that no digit of a number is lost.
    arguments = call.arguments.strip() or "{}"
    members: list[str] = []
    if call.kind == "resource":
        members.append(f'"uri": {_quote_json(call.name)}')
    elif call.kind in ("tool", "prompt"):
        members += [f'"name": {_quote_json(call.name)}', f'"arguments": {arguments}']
    if not row.handshake:
        members.append(f'"_meta": {_quote_json(name_client(revision)["_meta"])}')
    if call.kind == "request":
        params = _merge(arguments, members)
    else:
        params = f"{{{', '.join(members)}}}"
    head = f'"jsonrpc": "2.0", "id": {id}, "method": {_quote_json(method)}'
    return f'{{{head}, "params": {params}}}'


def _merge(params: str, members: list[str]) -> str:
    """Return an object with further members at its end; its own `_meta` stays as it is."""
    inner = params[1:-1].strip()
    if '"_meta"' in inner:
        return params
    return f"{{{', '.join(filter(None, [inner, *members]))}}}"


def opening_message(revision: RevisionId) -> str:
    """Return the request that opens a conversation."""
    params = initialize_params(revision, {}) | {"clientInfo": CLIENT_INFO}
    return _quote_json({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})


def initialized_message() -> str:
    """Return the notification that ends the handshake."""
    return _quote_json({"jsonrpc": "2.0", "method": "notifications/initialized"})


def _quote_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


# Prints the session id that a server assigns, if it does.
_READ_SESSION = "tr -d '\\r' | sed -n 's/^[Mm][Cc][Pp]-[Ss]ession-[Ii][Dd]: *//p'"


def curl_form(call: ExportedCall, safe: ServerSpec, revision: RevisionId) -> str:
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
        lines.append(
            _curl_request(safe, message, [f"{key}: {text}" for key, text in repeated.items()])
        )
        return "\n".join(lines) + "\n"
    version = [f"MCP-Protocol-Version: {row.id}"] if row.version_header else []
    session = '${SESSION:+-H "Mcp-Session-Id: $SESSION"}'
    opening = _curl_request(safe, opening_message(revision), [], before="-D - -o /dev/null")
    lines += [
        f"SESSION=$({opening} | {_READ_SESSION})",
        _curl_request(safe, initialized_message(), version, after=session),
        _curl_request(safe, message, version, after=session),
    ]
    return "\n".join(lines) + "\n"


def _curl_request(
    safe: ServerSpec, message: str, headers: list[str], *, before: str = "", after: str = ""
) -> str:
    words = ["curl -sS -N", before, '"$URL"']
    usual = ["Content-Type: application/json", "Accept: application/json, text/event-stream"]
    given = [f"{name}: {value}" for name, value in safe.headers.items()]
    words += [f"-H {quote_for_shell(each)}" for each in (*usual, *given)]
    words += [f"-H {quote(each)}" for each in headers]
    if has_token(safe) or safe.auth == "oauth":
        words.append(f'-H "Authorization: Bearer ${TOKEN_VARIABLE}"')
    words += [after, f"--data-binary {quote(message)}"]
    return " ".join(filter(None, words))


class CallForm(msgspec.Struct, frozen=True, kw_only=True):
    """A call in one form.

    Attributes:
        id: of the form.
        title: for people.
        language: of the text.
        text: to copy.
        note: what to know before it is used.
    """

    id: str
    title: str
    language: str
    text: str
    note: str = ""


class FormSetting(msgspec.Struct, frozen=True, kw_only=True):
    """What a call is exported for.

    Attributes:
        safe: the server.
        chosen: the revision that the user asked for; empty if it was negotiated.
        spoken: the revision that is spoken.
        transport: of the connection.
    """

    safe: ServerSpec
    chosen: str = ""
    spoken: RevisionId
    transport: str = "stdio"


def build_forms(call: ExportedCall, setting: FormSetting) -> list[CallForm]:
    """Return all forms that a call can have."""
    makers: list[Callable[[ExportedCall, FormSetting], Iterator[CallForm]]] = [
        _command_form,
        _case_form,
        _python_form,
        _curl_form,
        _json_form,
    ]
    return [form for make in makers for form in make(call, setting)]


def _note(call: ExportedCall, setting: FormSetting, *more: str, has_target: bool = True) -> str:
    """Return what a person has to do before an export works."""
    notes = list(more)
    names = placeholder_names(setting.safe) if has_target else []
    if names:
        notes.append(f"set {', '.join(names)} first")
    if call.masked:
        places = ", ".join(each or "all" for each in call.masked[:5])
        notes.append(f"secrets are masked: fill in {places}")
    return "; ".join(notes)


def _command_form(call: ExportedCall, setting: FormSetting) -> Iterator[CallForm]:
    safe = setting.safe
    words = ["accord call", target_word(safe), quote(call.name)]
    if call.kind == "tool":
        if call.arguments.strip() not in ("", "{}"):
            words += ["--json", quote(call.arguments)]
    elif call.kind == "prompt":
        words += [quote(f"{name}={value}") for name, value in _texts(call.arguments)]
        words.append("--prompt")
    elif call.kind == "request":
        return
    words += connection_options(safe, setting.chosen)
    line = " ".join(filter(None, words)) + command_end(safe)
    yield CallForm(
        id="accord",
        title="accord call",
        language="sh",
        text=f"{line}\n",
        note=_note(call, setting),
    )


def _texts(arguments: str) -> list[tuple[str, str]]:
    try:
        value = parse_exactly(arguments or "{}")
    except ValueError:
        return []
    members = value.items() if isinstance(value, dict) else ()
    return [
        (name, each if isinstance(each, str) else print_exactly(each)) for name, each in members
    ]


def _case_form(call: ExportedCall, setting: FormSetting) -> Iterator[CallForm]:
    found = case_form(call, setting.safe, setting.chosen)
    if found is None:
        return
    text, language, note = found
    yield CallForm(
        id="case",
        title="Case for accord test --cases",
        language=language,
        text=text,
        note=_note(call, setting, *filter(None, [note])),
    )


# -- Python


def _python_form(call: ExportedCall, setting: FormSetting) -> Iterator[CallForm]:
    safe = setting.safe
    if safe.url or safe.shown.endswith(".py"):
        target = quote_for_python(safe.url or safe.shown)
    else:
        target = f"[{', '.join(map(quote_for_python, safe.command))}]"
    options = [target, *_python_options(setting)]
    lines = [
        "import asyncio",
        *(["import os"] if any("os.environ" in each for each in options) else []),
        "",
        "import accord",
        "",
        "",
        "async def main() -> None:",
        f"    async with accord.connect({', '.join(options)}) as client:",
        f"        result = await {_python_call(call)}",
        "        print(result)",
        "",
        "",
        "asyncio.run(main())",
    ]
    yield CallForm(
        id="python",
        title="Python",
        language="python",
        text="\n".join(lines) + "\n",
        note=_note(call, setting),
    )


def _python_options(setting: FormSetting) -> Iterator[str]:
    safe = setting.safe
    if setting.chosen:
        yield f"revision={quote_for_python(setting.chosen)}"
    if safe.env:
        pairs = (f'"{name}": os.environ["{name}"]' for name in safe.env)
        yield f"env={{{', '.join(pairs)}}}"
    if safe.cwd:
        yield f"cwd={quote_for_python(safe.cwd)}"
    if safe.headers:
        pairs = (
            f"{quote_for_python(name)}: {quote_for_python(value)}"
            for name, value in safe.headers.items()
        )
        yield f"headers={{{', '.join(pairs)}}}"
    if has_token(safe):
        yield f'auth=os.environ["{TOKEN_VARIABLE}"]'
    elif safe.auth == "oauth":
        yield 'auth="oauth"'


def _python_call(call: ExportedCall) -> str:
    name = quote_for_python(call.name)
    arguments = _python_value(_parse(call.arguments))
    if call.kind == "tool":
        return f"client.call_tool({name}, {arguments})"
    if call.kind == "prompt":
        return f"client.get_prompt({name}, {arguments})"
    if call.kind == "resource":
        return f"client.read_resource({name})"
    return f"client.request({name}, {arguments})"


def _parse(text: str) -> object:
    try:
        return parse_exactly(text or "{}")
    except ValueError:
        return {}


def _python_value(value: object) -> str:
    """Return the literal of Python for a JSON value."""
    if isinstance(value, NumberText):
        return value.text
    if isinstance(value, dict):
        pairs = (f"{_python_value(name)}: {_python_value(each)}" for name, each in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_python_value, value))}]"
    # Not `quote_for_python`: a text of the user is never a placeholder.
    return repr(value)


# -- over the wire


def _curl_form(call: ExportedCall, setting: FormSetting) -> Iterator[CallForm]:
    if not setting.safe.url or setting.transport == "sse":
        return
    yield CallForm(
        id="curl",
        title="curl",
        language="sh",
        text=curl_form(call, setting.safe, setting.spoken),
        note=_note(call, setting),
    )


def _json_form(call: ExportedCall, setting: FormSetting) -> Iterator[CallForm]:
    yield CallForm(
        id="json",
        title="JSON-RPC request",
        language="json",
        text=call_message(call, setting.spoken) + "\n",
        note=_note(call, setting, has_target=False),
    )
