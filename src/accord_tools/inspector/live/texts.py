"""JSON texts of the page, read for requests, numbers stay as typed."""

from typing import Any, Final

import msgspec

from accord.types import JsonObject
from accord_tools.inspector.definition import ActionRefused

_encode: Final = msgspec.json.Encoder().encode


def encode_text(value: object) -> str:
    """Return a value of ours as JSON text."""
    return _encode(value).decode()


def show_text(data: bytes) -> str:
    """Return JSON that a server sent as text; broken UTF-8 stays visible."""
    return data.decode(errors="backslashreplace")


def read_object(text: str, field: str) -> dict[str, msgspec.Raw]:
    """Read an object whose members are sent as they were typed.

    Args:
        text: JSON.
        field: the member of the request of the page that has the text.

    Raises:
        ActionRefused: it is not an object.
    """
    data = text.encode(errors="surrogatepass") if text.strip() else b"{}"
    # Over stdio a message is one line. Texts within JSON cannot hold line ends.
    data = data.replace(b"\r", b" ").replace(b"\n", b" ")
    try:
        return msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    except msgspec.ValidationError:
        hint = "to send anything else, use the raw pane"
        raise ActionRefused(f"{field}: expected a JSON object; {hint}", field=field) from None
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise ActionRefused(f"{field} is not JSON: {error}", field=field) from None


def read_plain(text: str, field: str) -> Any:
    """Read JSON into plain values.

    Raises:
        ActionRefused: it is not JSON.
    """
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise ActionRefused(f"{field} is not JSON: {error}", field=field) from None


def read_texts(text: str, field: str) -> dict[str, str]:
    """Read an object of texts: the arguments of a prompt.

    Raises:
        ActionRefused: it is something else.
    """
    found = read_object(text, field)
    try:
        return {name: msgspec.json.decode(raw, type=str) for name, raw in found.items()}
    except msgspec.ValidationError:
        raise ActionRefused(f"{field}: the values of a prompt are texts", field=field) from None


def read_meta(text: str) -> JsonObject:
    """Read the `_meta` of a request.

    Raises:
        ActionRefused: it is not an object.
    """
    found = read_plain(text, "meta") if text.strip() else {}
    if not isinstance(found, dict):
        raise ActionRefused("meta: expected a JSON object", field="meta")
    return found
