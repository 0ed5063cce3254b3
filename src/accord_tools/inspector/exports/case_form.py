"""A call as a case for `accord test --cases`, which expects what came."""

import json
from pathlib import Path
from typing import Any, Final

import msgspec

from accord.protocol.revisions import HANDSHAKE
from accord.trace import MASK
from accord.types import JsonObject
from accord_tools.hosts.definition import HostsError
from accord_tools.hosts.documents.toml_text import format_pair, without_nulls
from accord_tools.inspector.exports.exported_call import ExportedCall
from accord_tools.inspector.exports.target_words import connection_options, has_placeholder
from accord_tools.inspector.target_access import SafeTarget

_VERBS: Final = {"tool": "call", "resource": "read", "prompt": "prompt"}
# A longer text is expected by its beginning.
_TEXT_MOST: Final = 2_000
_BEGINNING: Final = 200


def case_form(call: ExportedCall, safe: SafeTarget, chosen: str) -> tuple[str, str, str] | None:
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
    server, note = _server(safe, chosen)
    try:
        if without_nulls(arguments) != arguments:
            raise HostsError("TOML has no null")
        return _as_toml(server, case), "toml", note
    except HostsError:
        document = json.dumps({**server, "case": [case]}, indent=2, ensure_ascii=False)
        return f"{document}\n", "yaml", "; ".join(filter(None, [note, "save it as .yaml"]))


def _server(safe: SafeTarget, chosen: str) -> tuple[JsonObject, str]:
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
        if not _is_masked(found):
            return {"partly": found}
    text = _text_of(answer)
    if not text or _is_masked(text):
        return {}
    if len(text) <= _TEXT_MOST:
        return {"text": text}
    return {"contains": text[:_BEGINNING]}


def _is_masked(value: object) -> bool:
    return MASK.search(json.dumps(value)) is not None


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
