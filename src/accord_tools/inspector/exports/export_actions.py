"""The actions that give a person something to take away."""

import asyncio
import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from accord.errors import TraceError
from accord.testing.catalog import catalog_of
from accord.types import JsonObject, RevisionId
from accord_tools.contract.lock_file import format_lock
from accord_tools.inspector.actions import READ, action
from accord_tools.inspector.definition import ActionRefused, Download
from accord_tools.inspector.exports.call_forms import FormSetting, build_forms
from accord_tools.inspector.exports.exported_call import CallReference, find_call
from accord_tools.inspector.exports.host_entries import host_entry, list_hosts
from accord_tools.inspector.exports.session_files import (
    breaches_as_text,
    session_as_har,
    session_as_json,
    session_as_report,
    session_as_text,
    session_as_trace,
)
from accord_tools.inspector.history.call_history import CallHistory
from accord_tools.inspector.log.message_log import InspectedLog
from accord_tools.inspector.session import InspectedSession
from accord_tools.inspector.target_access import (
    check_words,
    current_target,
    make_safe,
    spoken_revision,
)
from accord_tools.reports.markdown import code_span, escape_markdown

if TYPE_CHECKING:
    from collections.abc import Iterable


SessionFormat: TypeAlias = Literal["trace", "json", "har", "text", "report"]
CatalogFormat: TypeAlias = Literal["lock", "markdown"]
_ENDINGS = {
    "trace": ("jsonl", "application/x-ndjson"),
    "json": ("json", "application/json"),
    "har": ("har", "application/json"),
    "text": ("txt", "text/plain; charset=utf-8"),
    "report": ("html", "text/html; charset=utf-8"),
}


@action("export.call")
async def export_call(session: InspectedSession, params: CallReference) -> object:
    """Return a call as a command line, a case, Python, curl and JSON."""
    from accord_tools.inspector.live.live_connection import LiveConnection

    call = await find_call(session, params)
    log = session.part(InspectedLog)
    target = current_target(session)
    transport = "stdio"
    if target.url:
        transport = target.transport or (log.main.transport if log.main else "http")
    setting = FormSetting(
        safe=make_safe(target),
        chosen=session.part(LiveConnection).settings.revision or "",
        spoken=spoken_revision(session),
        transport=transport,
    )
    return {"forms": build_forms(call, setting)}


@action("export.hosts")
async def export_hosts(session: InspectedSession) -> object:
    """Return the hosts that an entry can be made for."""
    return {"hosts": list_hosts()}


@action("export.host")
async def export_host(session: InspectedSession, *, host: str) -> object:
    """Return the entry of the server for a host."""
    # It looks for programs on the disk.
    return await asyncio.to_thread(host_entry, current_target(session), host)


@action("export.catalog")
async def export_catalog(session: InspectedSession, *, format: CatalogFormat = "lock") -> object:
    """Return everything that the server offers as a file."""
    from accord_tools.inspector.live.live_connection import LiveConnection

    client = session.part(LiveConnection).client
    catalog = session.part(CallHistory).secrets.hide_given(await catalog_of(client))
    name = _file_name(session)
    if format == "lock":
        text = format_lock(catalog, client.revision)
        return Download(f"{name}.lock.json", "application/json", [text.encode(errors="replace")])
    text = catalog_as_markdown(catalog, client.revision)
    return Download(f"{name}.md", "text/markdown; charset=utf-8", [text.encode(errors="replace")])


@action("export.breaches", kinds=READ)
async def export_breaches(session: InspectedSession) -> object:
    """Return the broken clauses as text for an issue."""
    log = session.part(InspectedLog)
    command = None
    if session.kind == "live":
        command = check_words(make_safe(current_target(session)))
    title = session.target.name
    return {"text": breaches_as_text(log, title, _revision(session), command)}


def _revision(session: InspectedSession) -> RevisionId:
    main = session.part(InspectedLog).main
    return spoken_revision(session) if main is None else main.judged_by


@action("export.session", kinds=READ)
async def export_session(session: InspectedSession, *, format: SessionFormat = "trace") -> object:
    """Return the log as a file."""
    log = session.part(InspectedLog)
    if log.is_empty:
        raise ActionRefused("the log is empty")
    ending, media_type = _ENDINGS[format]
    chunks: Iterable[bytes]
    if format == "trace":
        chunks = session_as_trace(log)
    elif format == "json":
        chunks = session_as_json(log, _about(session))
    elif format == "har":
        url = make_safe(session.target).url
        if not url and session.kind == "live":
            raise ActionRefused(
                "HAR is for HTTP; this server is reached over stdio", field="format"
            )
        chunks = session_as_har(log, url or "http://recorded.invalid")
    elif format == "report":
        try:
            chunks = [await asyncio.to_thread(session_as_report, session)]
        except TraceError as error:
            raise ActionRefused(str(error)) from None
    else:
        chunks = session_as_text(log)
    return Download(f"{_file_name(session)}.{ending}", media_type, chunks)


def _about(session: InspectedSession) -> JsonObject:
    return {
        "title": session.target.name,
        "kind": session.kind,
        "revision": _revision(session),
        "exported": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _file_name(session: InspectedSession) -> str:
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", session.target.name).strip("-.")
    return f"accord-{plain[:60] or 'server'}"


# -- the catalog as Markdown


_TITLES = {
    "tools": ("Tools", "name"),
    "resources": ("Resources", "uri"),
    "resourceTemplates": ("Resource templates", "uriTemplate"),
    "prompts": ("Prompts", "name"),
}


def catalog_as_markdown(catalog: JsonObject, revision: str) -> str:
    """Return the list of everything that a server offers, in Markdown."""
    return "\n".join(_markdown_lines(catalog, revision)) + "\n"


def _markdown_lines(catalog: JsonObject, revision: str) -> Iterator[str]:
    yield f"# {escape_markdown(str(catalog.get('server', 'server')))}"
    yield ""
    yield f"Protocol revision {revision}."
    for kind, (title, name) in _TITLES.items():
        entries = catalog.get(kind)
        if not isinstance(entries, list) or not entries:
            continue
        yield ""
        yield f"## {title}"
        for entry in entries:
            yield ""
            yield f"### {code_span(str(entry.get(name, '')))}"
            yield from _describe_entry(entry)


def _describe_entry(entry: JsonObject) -> Iterator[str]:
    for key in ("title", "description"):
        text = entry.get(key)
        if isinstance(text, str) and text.strip():
            yield ""
            yield escape_markdown(" ".join(text.split()))
    arguments = list(_argument_lines(entry))
    if arguments:
        yield ""
        yield from arguments


def _argument_lines(entry: JsonObject) -> Iterator[str]:
    schema: Any = entry.get("inputSchema")
    if isinstance(schema, dict):
        properties, required = schema.get("properties"), schema.get("required")
        named = properties.items() if isinstance(properties, dict) else ()
        for name, part in named:
            is_required = isinstance(required, list) and name in required
            yield _argument_line(name, part, is_required=is_required)
    listed: Any = entry.get("arguments")
    for part in listed if isinstance(listed, list) else ():
        if isinstance(part, dict):
            yield _argument_line(
                str(part.get("name")), part, is_required=part.get("required") is True
            )


def _argument_line(name: str, part: object, *, is_required: bool) -> str:
    known = part if isinstance(part, dict) else {}
    kind, said = known.get("type"), known.get("description")
    facts = [str(kind)] if isinstance(kind, str) else []
    if is_required:
        facts.append("required")
    line = f"- {code_span(name)}"
    if facts:
        line += f" ({escape_markdown(', '.join(facts))})"
    if isinstance(said, str) and said.strip():
        line += f": {escape_markdown(' '.join(said.split()))}"
    return line
