"""A call in other forms: a command line, a case, Python, curl, JSON."""

from collections.abc import Callable, Iterator
from shlex import quote

import msgspec

from accord.types import RevisionId
from accord_tools.inspector.comparing.exact_json import NumberText, parse_exactly, print_exactly
from accord_tools.inspector.exports.case_form import case_form
from accord_tools.inspector.exports.curl_form import curl_form
from accord_tools.inspector.exports.exported_call import ExportedCall
from accord_tools.inspector.exports.target_words import (
    command_end,
    connection_options,
    placeholder_names,
    quote_for_python,
    target_word,
)
from accord_tools.inspector.exports.wire_text import call_message
from accord_tools.inspector.target_access import TOKEN_VARIABLE, SafeTarget


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

    safe: SafeTarget
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
    if safe.has_token:
        yield f'auth=os.environ["{TOKEN_VARIABLE}"]'
    elif safe.has_sign_in:
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
