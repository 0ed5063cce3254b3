"""The messages of an exported call, with numbers as they were typed."""

import json

from accord.protocol.revisions import REVISIONS
from accord.types import RevisionId
from accord_tools.check.probing.messages import initialize_params
from accord_tools.inspector.exports.exported_call import ExportedCall
from accord_tools.inspector.raw.client_info import CLIENT_INFO, name_client

_METHODS = {"tool": "tools/call", "resource": "resources/read", "prompt": "prompts/get"}


def call_message(call: ExportedCall, revision: RevisionId, *, id: int = 1) -> str:
    """Return the request of a call as JSON text on one line."""
    method = _METHODS.get(call.kind, call.name)
    row = REVISIONS[revision]
    # Arguments stay text, so that no digit of a number is lost.
    arguments = call.arguments.strip() or "{}"
    members: list[str] = []
    if call.kind == "resource":
        members.append(f'"uri": {_quote(call.name)}')
    elif call.kind in ("tool", "prompt"):
        members += [f'"name": {_quote(call.name)}', f'"arguments": {arguments}']
    if not row.handshake:
        members.append(f'"_meta": {_quote(name_client(revision)["_meta"])}')
    if call.kind == "request":
        params = _merge(arguments, members)
    else:
        params = f"{{{', '.join(members)}}}"
    head = f'"jsonrpc": "2.0", "id": {id}, "method": {_quote(method)}'
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
    return _quote({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})


def initialized_message() -> str:
    """Return the notification that ends the handshake."""
    return _quote({"jsonrpc": "2.0", "method": "notifications/initialized"})


def _quote(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
