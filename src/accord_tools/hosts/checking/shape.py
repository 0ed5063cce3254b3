"""The shape of an entry: is it written as its host reads it? Each fault comes with its mending."""

import re
import shlex
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from accord.client.server_spec import TransportName
from accord_tools.hosts.checking.findings import FindingSeverity
from accord_tools.hosts.definition import EntryShape, Host
from accord_tools.hosts.launching.environment import shapes_of

SYNONYMS: Final[dict[str, tuple[str, ...]]] = {
    "program": ("command", "cmd", "program"),
    "args": ("args", "arguments"),
    "env": ("env", "environment", "envs"),
    "url": ("url", "serverUrl", "uri", "httpUrl", "server_url", "endpoint"),
    "headers": ("headers", "http_headers", "httpHeaders"),
    "cwd": ("cwd", "workingDirectory", "working_directory"),
}
"""The names that hosts have for one field."""
_TYPE_MEMBERS: Final = ("type", "transport", "transportType")
_TRANSPORTS: Final[dict[str, TransportName]] = {
    **dict.fromkeys(("stdio", "local", "command"), "stdio"),
    **dict.fromkeys(("http", "streamablehttp", "remote"), "http"),
    "sse": "sse",
}
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_NAMES: Final = {"stdio": "stdio", "http": "Streamable HTTP", "sse": "HTTP with SSE"}


class ShapeFault(NamedTuple):
    """A fault of an entry.

    Attributes:
        code: of the table of findings.
        message: what is wrong.
        change: what to do.
        mended: the whole entry as it should be; None if that is not certain.
        severity: if it is not that of the code.
    """

    code: str
    message: str
    change: str = ""
    mended: dict[str, Any] | None = None
    severity: FindingSeverity | None = None


def find_shape_faults(value: Any, host: Host) -> Iterator[ShapeFault]:
    """Yield what is wrong with the members of an entry, for this host."""
    if not isinstance(value, Mapping):
        yield ShapeFault("entry-not-object", f"it is {kind_of(value)}", "write an object")
        return
    entry = dict(value)
    if isinstance(entry.get("command"), Mapping):
        return  # the older form of Zed, which that host changes by itself
    transport = transport_of(entry, host)
    if transport is None:
        yield _empty(entry)
        return
    if field_of(entry, "program", host) and field_of(entry, "url", host):
        yield ShapeFault(
            "entry-both", "it has both a command and a URL", "keep the one that is meant"
        )
    shape = shape_of(host, transport)
    if shape is None:
        advice = f"let accord bridge it: accord add URL --host {host.id}"
        message = f"{host.name} has no servers of {_NAMES[transport]}"
        yield ShapeFault("transport-missing", message, advice if transport != "stdio" else "")
        return
    yield from _member_faults(entry, host, shape)
    yield from _type_faults(entry, host, shape, transport)
    if transport == "stdio":
        yield from _command_faults(entry, shape)
        yield from _text_faults(entry, shape, "env")
    else:
        yield from _url_faults(entry, shape)
        yield from _text_faults(entry, shape, "headers")
        yield from _header_faults(entry, shape)


def kind_of(value: object) -> str:
    """Return what a value is, without its content."""
    names = {list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    names |= {int: "a number", float: "a number"}
    return "an object" if isinstance(value, Mapping) else names.get(type(value), "another value")


def shape_of(host: Host, transport: TransportName) -> EntryShape | None:
    """Return how a host writes entries of a transport."""
    return {"stdio": host.stdio, "http": host.http, "sse": host.sse}[transport]


def transport_of(entry: Mapping[str, Any], host: Host) -> TransportName | None:
    """Return the transport that an entry means, by its members; None if it means none."""
    if field_of(entry, "program", host):
        return "stdio"
    url = field_of(entry, "url", host)
    if url is None:
        return None
    given = next((entry[name] for name in _TYPE_MEMBERS if isinstance(entry.get(name), str)), None)
    named = _named_transport(given)
    if named in ("http", "sse"):
        return named
    if named is None and (_means_older_form(url, host) or host.untyped_url == "sse"):
        return "sse"
    is_older = host.sse is not None and isinstance(entry[url], str) and _ends_with_sse(entry[url])
    return "sse" if is_older else "http"


def _means_older_form(url: str, host: Host) -> bool:
    """Return whether the name of the member with the URL stands for HTTP with SSE."""
    if host.http is None or host.sse is None:
        return host.http is None and host.sse is not None
    return url in _names_of(host.sse, "url") and url not in _names_of(host.http, "url")


def fixes_form(entry: Mapping[str, Any], host: Host) -> bool:
    """Return whether an entry with a URL says which form of HTTP it is; else the host tries both.

    Args:
        entry: as it stands in the file.
        host: some tell the forms apart by themselves.
    """
    if host.http is None or host.sse is None:
        return True
    if host.http.members == host.sse.members and host.http.constants == host.sse.constants:
        return False
    if any(isinstance(entry.get(name), str) for name in _TYPE_MEMBERS):
        return True
    url = next((name for name in SYNONYMS["url"] if name in entry), None)
    shapes = (host.http, host.sse)
    is_read_by_both = all(url in _names_of(shape, "url") for shape in shapes)
    return not is_read_by_both or any("type" not in shape.optional for shape in shapes)


def _ends_with_sse(url: str) -> bool:
    return re.search(r"/sse/?(?:[?#].*)?$", url) is not None


def _named_transport(given: object) -> TransportName | None:
    return _TRANSPORTS.get(re.sub(r"[-_ ]", "", given).lower()) if isinstance(given, str) else None


def field_of(entry: Mapping[str, Any], field: str, host: Host) -> str | None:
    """Return the member of an entry that means a field, in this host or in others."""
    own = [name for shape in shapes_of(host) for name in _names_of(shape, field)]
    return next((name for name in (*own, *SYNONYMS[field]) if name in entry), None)


def _names_of(shape: EntryShape, field: str) -> list[str]:
    """Return the names that a host reads for a field, the one to write first."""
    fields = {"program", "command"} if field == "program" else {field}
    found = {**shape.members, **shape.others}
    return [name for name, each in found.items() if each in fields]


def _empty(entry: Mapping[str, Any]) -> ShapeFault:
    wanted = [name for field in ("program", "url") for name in SYNONYMS[field]]
    for name in entry:
        close = get_close_matches(name, wanted, n=1, cutoff=0.75)
        if close:
            mended = rename_member(entry, name, close[0])
            message = f"it has neither a command nor a URL, but {name}"
            return ShapeFault("entry-empty", message, f"write {close[0]}", mended)
    return ShapeFault("entry-empty", "it has neither a command nor a URL", "add one, or remove it")


def rename_member(entry: Mapping[str, Any], before: str, after: str) -> dict[str, Any]:
    """Return an entry with one member under another name; dots lead into objects."""
    changed = {name: each for name, each in entry.items() if name != before}
    *outer, last = after.split(".")
    inner: dict[str, Any] = changed
    for name in outer:
        known = inner.get(name)
        inner[name] = dict(known) if isinstance(known, Mapping) else {}
        inner = inner[name]
    inner[last] = entry[before]
    return changed


# -- names of members


def _member_faults(entry: Mapping[str, Any], host: Host, shape: EntryShape) -> Iterator[ShapeFault]:
    read = {name.split(".")[0] for name in (*shape.members, *shape.constants, *shape.others)}
    known = {
        name.split(".")[0]
        for each in shapes_of(host)
        for name in (*each.members, *each.constants, *each.others)
    }
    for name in entry:
        if name in read:
            continue
        field = next((each for each, names in SYNONYMS.items() if name in names), None)
        own = _names_of(shape, field) if field else []
        if own and not any(_has(entry, each) for each in own):
            message = f"{host.name} does not read {name}"
            mended = rename_member(entry, name, own[0])
            # Without variables or headers the server may still run.
            severity: FindingSeverity = "error" if field in ("program", "url") else "warning"
            yield ShapeFault("member-name", message, f"write {own[0]}", mended, severity)
        elif field == "cwd" and not own and "program" in shape.members.values():
            message = f"{host.name} is not known to read {name}, so that the server runs elsewhere"
            change = "write full paths, or launch it by accord exec --cwd"
            yield ShapeFault("member-ignored", message, change)
        elif field is None and name not in known:
            close = get_close_matches(name, sorted(known), n=1, cutoff=0.8)
            if close and close[0] not in entry:
                message = f"{host.name} does not know {name}"
                yield ShapeFault("member-unknown", message, f"did you mean {close[0]}?")


def _has(entry: Mapping[str, Any], dotted: str) -> bool:
    value: Any = entry
    for name in dotted.split("."):
        if not isinstance(value, Mapping) or name not in value:
            return False
        value = value[name]
    return True


# -- the type


def _type_faults(
    entry: dict[str, Any], host: Host, shape: EntryShape, transport: TransportName
) -> Iterator[ShapeFault]:
    for member in ("type", "transport"):
        wanted = shape.constants.get(member)
        if not isinstance(wanted, str):
            continue
        given = entry.get(member)
        accepted = (wanted, *shape.accepted.get(member, ()))
        if given is None:
            if member in shape.optional or any(name in entry for name in shape.others):
                continue  # an older name may say the type, too
            yield ShapeFault(
                "type-missing",
                f"it has no {member}, which {host.name} expects",
                f'add {member}: "{wanted}"',
                {**entry, member: wanted},
            )
        elif given not in accepted:
            is_meant = _named_transport(given) in (transport, None) or transport == "stdio"
            yield ShapeFault(
                "type-wrong",
                f"{member} is {shorten_value(given)}, which {host.name} does not take for an entry"
                f" with {'a command' if transport == 'stdio' else 'a URL'}",
                f'write "{wanted}"',
                {**entry, member: wanted} if is_meant else None,
            )


def shorten_value(value: object) -> str:
    """Return a short text of a value for messages."""
    return repr(value)[:60] if isinstance(value, str) else kind_of(value)


# -- commands


def _command_faults(entry: dict[str, Any], shape: EntryShape) -> Iterator[ShapeFault]:
    whole = next((name for name, field in shape.members.items() if field == "command"), None)
    if whole is not None:
        yield from _word_list_faults(entry, whole)
        return
    program = next((name for name, field in shape.members.items() if field == "program"), None)
    args = next((name for name, field in shape.members.items() if field == "args"), None)
    if program is None or args is None or program not in entry:
        return
    given = entry[program]
    more = entry.get(args)
    rest = more if isinstance(more, list) else []
    if isinstance(given, list):
        is_mended = bool(given) and all(isinstance(each, str) for each in given)
        mended = {**entry, program: given[0], args: [*given[1:], *rest]} if is_mended else None
        advice = f"write the program as {program}, and the other words as {args}"
        yield ShapeFault("command-list", f"{program} is a list", advice, mended)
    elif not isinstance(given, str) or not given.strip():
        message = f"{program} is {kind_of(given) if given != '' else 'empty'}"
        yield ShapeFault("entry-empty", message, "write the program")
    else:
        words = split_command(given)
        if words is not None:
            mended = {**entry, program: words[0], args: [*words[1:], *rest]}
            message = f"{program} has arguments, and hosts look for a program of that whole name"
            advice = f"write {words[0]} as {program}, and the other words as {args}"
            yield ShapeFault("command-blanks", message, advice, mended)
    yield from _args_faults(entry, args)


def _args_faults(entry: dict[str, Any], args: str) -> Iterator[ShapeFault]:
    given = entry.get(args)
    if given is None:
        return
    advice = "write a list of texts"
    if isinstance(given, str):
        words = _split(given)
        mended = None if words is None else {**entry, args: words}
        yield ShapeFault("args-text", f"{args} is a text", advice, mended)
    elif not isinstance(given, list):
        yield ShapeFault("args-text", f"{args} is {kind_of(given)}", advice)
    elif not all(isinstance(each, str) for each in given):
        odd = next(each for each in given if not isinstance(each, str))
        texts = [_as_text(each) for each in given]
        mended = {**entry, args: texts} if all(each is not None for each in texts) else None
        yield ShapeFault("args-text", f"{args} contains {kind_of(odd)}", advice, mended)


def _word_list_faults(entry: dict[str, Any], member: str) -> Iterator[ShapeFault]:
    given, more = entry.get(member), entry.get("args")
    rest = more if isinstance(more, list) else []
    words: list[Any] | None = None
    if isinstance(given, str) and given.strip():
        words = [*(split_command(given) or [given]), *rest]
        message = f"{member} is a text"
    elif isinstance(given, list) and rest:
        words = [*given, *rest]
        message = "args is not read here"
    elif isinstance(given, list) and given:
        if all(isinstance(each, str) for each in given):
            return
        message = f"{member} contains values that are not texts"
    else:
        message = f"{member} is {kind_of(given) if given else 'empty'}"
    mended = None
    if words is not None and all(isinstance(each, str) for each in words):
        mended = {name: each for name, each in entry.items() if name != "args"} | {member: words}
    yield ShapeFault("command-text", message, "write all words of the command as a list", mended)


def split_command(text: str) -> list[str] | None:
    """Return the words of a command in one text; None if it is a single program."""
    if not re.search(r"\s", text.strip()) or Path(text).exists():
        return None
    # A path with blanks looks the same: the first word has to be a program by its own.
    first = text.split(maxsplit=1)[0]
    if "/" in first and not Path(first).expanduser().exists():
        return None
    words = _split(text)
    return words if words and len(words) > 1 else None


def _split(text: str) -> list[str] | None:
    try:
        # Backslashes are parts of paths in Windows.
        return shlex.split(text, posix="\\" not in text)
    except ValueError:
        return None


def _as_text(value: object) -> str | None:
    if isinstance(value, str):
        return value
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if is_number else None


# -- URLs, variables and headers


def _url_faults(entry: dict[str, Any], shape: EntryShape) -> Iterator[ShapeFault]:
    name = next((each for each in _names_of(shape, "url") if each in entry), None)
    if name is None:
        return
    given = entry[name]
    if not isinstance(given, str):
        yield ShapeFault("url-wrong", f"{name} is {kind_of(given)}", "write a text")
    elif not re.match(r"https?://[^/\s]|[^:/]*\$|\{|(?:unix|pipe)://", given, re.IGNORECASE):
        message = f"{name} does not begin with http:// or https://"
        yield ShapeFault("url-wrong", message, "write the whole URL")
    elif not _is_url(given):
        yield ShapeFault("url-wrong", f"{name} has an invalid host or port", "correct it")


def _is_url(text: str) -> bool:
    if "$" in text or "{" in text:
        return True  # a placeholder may be anything
    try:
        _ = urlsplit(text).port
    except ValueError:
        return False
    return text.isprintable() and " " not in text


def _text_faults(entry: dict[str, Any], shape: EntryShape, field: str) -> Iterator[ShapeFault]:
    for name in _names_of(shape, field):
        if name not in entry or "." in name:
            continue
        given = entry[name]
        code = "env-object" if field == "env" else "headers-object"
        if not isinstance(given, Mapping):
            pairs = _pairs(given) if field == "env" else None
            mended = None if pairs is None else {**entry, name: pairs}
            message, advice = f"{name} is {kind_of(given)}", "write an object of texts"
            yield ShapeFault(code, message, advice, mended)
            continue
        odd = [key for key, each in given.items() if not isinstance(each, str | None)]
        if odd:
            texts = {key: each if each is None else _as_text(each) for key, each in given.items()}
            is_certain = all(texts[key] is not None for key in odd)
            mended = {**entry, name: texts} if is_certain else None
            message = f"{name}.{odd[0]} is {kind_of(given[odd[0]])}"
            yield ShapeFault("env-text", message, "write it as a text, in quotes", mended)


def _header_faults(entry: dict[str, Any], shape: EntryShape) -> Iterator[ShapeFault]:
    for member in _names_of(shape, "headers"):
        given = entry.get(member)
        for name, value in given.items() if isinstance(given, Mapping) else ():
            is_name = _HEADER_NAME.fullmatch(str(name)) is not None
            if not is_name or (isinstance(value, str) and _CONTROL.search(value)):
                message = f"{member} has a name or a value with signs that no header may have"
                yield ShapeFault("header-wrong", message, f"correct {str(name)[:60]!r}")
                return


def _pairs(given: object) -> dict[str, str] | None:
    """Return variables from a list of `NAME=value`."""
    if not isinstance(given, list) or not given:
        return None
    found = [each.partition("=") for each in given if isinstance(each, str) and "=" in each]
    return {name: value for name, _, value in found} if len(found) == len(given) else None
