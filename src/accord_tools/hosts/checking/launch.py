"""A short conversation with the server of an entry, launched or reached as its host would."""

import asyncio
import contextlib
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath
from time import monotonic
from typing import Any, Final

import msgspec

from accord.client.server_spec import ServerSpec
from accord.errors import AccordError, ConnectFailed, MissingExtra
from accord.protocol.revisions import BEFORE_HANDSHAKE, REVISIONS
from accord.secrets.filter import filter_of, find_given
from accord.secrets.recognition import is_path_like, names_secret
from accord.stdio.error_lines import find_cause, find_missing_variable, telling_lines
from accord_tools.check.probing.messages import Reply, shorten
from accord_tools.check.probing.raw_connection import (
    AuthorizationRequired,
    ConnectionEnded,
    MessageTimeout,
    RawConnection,
)
from accord_tools.check.probing.target import Form, ServerTarget, find_form, with_form
from accord_tools.hosts.checking.findings import Blame, Finding, LaunchFacts, new_finding
from accord_tools.hosts.launching.environment import LaunchSettings

# -- advice on a server that does not start


_LINES: Final = 3
_LINE: Final = 200
DOWNLOADERS: Final = frozenset({"npx", "uvx", "uv", "bunx", "pipx", "docker", "podman"})
"""Programs whose first start may take minutes."""
_RUNNERS: Final = {
    "npx": "Node.js",
    "node": "Node.js",
    "uvx": "uv",
    "uv": "uv",
    "docker": "Docker",
    "bun": "Bun",
    "bunx": "Bun",
    "deno": "Deno",
}


def advise_program(program: str) -> str:
    """Return what to do about a program that does not exist."""
    if os.path.isabs(program) or os.path.dirname(program):
        return "correct the path; is it executable?"
    if program in _RUNNERS:
        return f"install {_RUNNERS[program]}, or write the full path of {program}"
    if program == "python" and shutil.which("python3"):
        return "write python3, or the full path of the Python that has the server's packages"
    return "install it, or write its full path"


def advise_start(stderr: Sequence[str], stray: Sequence[str]) -> str:
    """Return what to do about a server that does not start, by what it wrote."""
    return diagnose_start(stderr, stray)[1]


def diagnose_start(stderr: Sequence[str], stray: Sequence[str]) -> tuple[Blame, str]:
    """Return what has to change, and how, by what a server wrote before it ended."""
    text = "\n".join(stderr)
    if "ModuleNotFoundError" in text or "No module named" in text:
        return (
            "machine",
            "install the missing module for that Python, or name the Python that has it",
        )
    if "Cannot find module" in text or "ERR_MODULE_NOT_FOUND" in text:
        return "machine", "install the packages of the server (npm install), or correct the path"
    if "Permission denied" in text or "EACCES" in text:
        return "machine", "let the user of the host read and run these files"
    if "EADDRINUSE" in text or "Address already in use" in text:
        return "machine", "end the other copy of the server: both want the same port"
    if variable := find_missing_variable(stderr):
        option = f"--env {variable}=VALUE here, env in the entry of a host"
        return "entry", f"set the variable that it misses, {variable}: {option}"
    if "KeyError" in text or "environment variable" in text.lower():
        return (
            "entry",
            "set the variable that it misses: --env K=V here, env in the entry of a host",
        )
    if re.search(r"can't open file|no such file|there is no file|ENOENT", text, re.IGNORECASE):
        return "entry", "correct the path that it does not find; make it absolute"
    if stray:
        return "server", "write messages alone to standard output, one in each line"
    if stderr:
        return "server", "mend what it says on standard error"
    return "entry", "check that the command serves MCP over stdio: it may need another argument"


def quote_stderr(lines: Sequence[str]) -> str:
    """Return the cause and the last lines of standard error, to be added to a message."""
    cause, last = find_cause(lines), telling_lines(lines)[-_LINES:]
    kept = last if any(each in cause for each in last) else [cause, *last]
    shown = [shorten(each, _LINE) for each in kept if each]
    return f"; stderr: {' | '.join(shown)}" if shown else ""


# -- the conversation


_LEAVING: Final = 2.0
_PAGES: Final = 50
_TEXT: Final = 200
_LISTS: Final = {
    "tools": ("tools", "tools/list"),
    "resources": ("resources", "resources/list"),
    "prompts": ("prompts", "prompts/list"),
}


def target_of(
    entry: ServerSpec, settings: LaunchSettings, seconds: float, *, has_form: bool = True
) -> ServerTarget:
    """Return the server of an entry, to be launched with exactly the host's environment.

    Args:
        entry: of the host.
        settings: with all placeholders filled in.
        seconds: to wait for an answer.
        has_form: whether the entry says which form of HTTP its URL speaks.
    """
    form: Form = "sse" if entry.form == "sse" else "http"
    spec = ServerSpec(
        name=entry.name,
        command=settings.command,
        url=settings.url,
        transport=form if settings.url and has_form else None,
        headers=settings.headers,
        env=settings.env,
        inherits=False,
        cwd=str(settings.cwd),
    )
    return ServerTarget(spec=spec, patience=seconds, leaving=_LEAVING)


async def try_server(
    entry: ServerSpec, settings: LaunchSettings, seconds: float, *, has_form: bool = True
) -> tuple[LaunchFacts, list[Finding]]:
    """Launch or reach a server, begin a conversation, fetch its lists, ping it and leave.

    Args:
        entry: of the host.
        settings: with all placeholders filled in.
        seconds: for all of it.
        has_form: whether the entry says which form of HTTP its URL speaks.
    """
    target = target_of(entry, settings, seconds, has_form=has_form)
    trial = ServerTrial(target, hider_of(entry, settings), seconds)
    try:
        await trial.run()
    except MissingExtra as error:
        message = f"the URL was not tried: {error}"
        trial.findings.append(new_finding("launch-skipped", message, severity="warning"))
    return trial.facts, trial.findings


def hider_of(entry: ServerSpec, settings: LaunchSettings) -> Callable[[str], str]:
    """Return a function that hides the values of an entry in texts of its server."""
    found = [each for each in settings.secrets if not is_path_like(each)]
    for name in entry.env:
        value = settings.env.get(name, "")
        # Paths stay readable, unless a name says that they are something else.
        if names_secret(name) or not is_path_like(value):
            found.append(value)
    return filter_of(find_given(found, headers=settings.headers, url=settings.url)).hide_any


class ServerTrial:
    """One conversation, and what it shows.

    Args:
        target: the server.
        hide: hides secrets in its texts.
        seconds: for all of it.

    Attributes:
        facts: about the server.
        findings: what is wrong.
    """

    def __init__(self, target: ServerTarget, hide: Callable[[str], str], seconds: float) -> None:
        self.target = target
        self.facts = LaunchFacts(transport=target.transport)
        self.findings: list[Finding] = []
        self._hide = hide
        self._seconds = seconds
        self._step = ""
        self._refusal = ""

    async def run(self) -> None:
        """Hold the conversation; every failure becomes a finding."""
        line = self.target.connection()
        try:
            async with asyncio.timeout(self._seconds):
                if self.target.spec.url and self.target.spec.transport is None:
                    self.target = await with_form(self.target)
                    self.facts.transport = self.target.transport
                    line = self.target.connection()
                if not await self._talk(line, BEFORE_HANDSHAKE.id):
                    # A server of the newest revision alone has no handshake.
                    line = self.target.connection()
                    newest = [row.id for row in REVISIONS.values() if not row.handshake][-1]
                    if not await self._talk(line, newest):
                        await self._report_refusal()
        except TimeoutError:
            self._report_silence(line)
        except AuthorizationRequired:
            self.facts.needs_sign_in = True
            self._add("sign-in", "the server asks for a sign-in", "sign in through the host")
        except (MessageTimeout, ConnectionEnded, ConnectFailed) as error:
            self._report_failure(line, error)
        except (ValueError, OSError) as error:
            # A header or a word with signs that cannot be sent.
            code = "url-wrong" if self.target.spec.url else "start-failed"
            self._add(code, f"it cannot be used as it is: {error}", "look for odd characters in it")
        self._look_back(line)

    # -- the conversation

    async def _talk(self, line: RawConnection, revision: str) -> bool:
        """Hold the conversation in one revision; return False if the server refuses it."""
        began = monotonic()
        self._step = "the handshake"
        async with line:
            reply = await line.begin_conversation(revision, capabilities={})
            self.facts.milliseconds = round((monotonic() - began) * 1000)
            if reply.is_error or not reply.result:
                self._refusal = self._refusal or self._describe(reply)
                return False
            self._note_opening(line, revision)
            declared = line.opening.get("capabilities")
            for name, (member, method) in _LISTS.items():
                if isinstance(declared, dict) and name in declared:
                    await self._fetch(line, member, method)
            if not line.is_stateless:
                self._step = "ping"
                await line.ask("ping")
        return True

    def _note_opening(self, line: RawConnection, revision: str) -> None:
        opening = line.opening
        found = opening.get("serverInfo")
        info: dict[str, Any] = found if isinstance(found, dict) else _info_of(opening)
        self.facts.revision = str(opening.get("protocolVersion") or revision)
        self.facts.server = self._hide(shorten(str(info.get("name", "")), _TEXT))
        self.facts.version = self._hide(shorten(str(info.get("version", "")), _TEXT))

    async def _fetch(self, line: RawConnection, member: str, method: str) -> None:
        self._step = method
        count, cursor = 0, None
        for _ in range(_PAGES):
            reply = await line.ask(method, None if cursor is None else {"cursor": cursor})
            if reply.is_error:
                self._add(
                    "list-failed",
                    f"{method}: {self._describe(reply)}",
                    "answer it, or do not declare its capability",
                )
                return
            found = reply.result.get(member)
            count += len(found) if isinstance(found, list) else 0
            cursor = reply.result.get("nextCursor")
            if not isinstance(cursor, str):
                break
        self.facts.counts[member] = count

    def _describe(self, reply: Reply) -> str:
        text = reply.error.get("message") if reply.is_error else None
        code = "" if reply.code is None else f"error {reply.code}, "
        return self._hide(f"{code}{shorten(str(text or reply), _TEXT)}")

    # -- what went wrong

    def _add(self, code: str, message: str, change: str = "", **facts: Any) -> None:
        self.findings.append(new_finding(code, self._hide(message), change, **facts))

    def _report_silence(self, line: RawConnection) -> None:
        lines = self._stderr(line)
        message = f"no answer to {self._step} within {self._seconds:g} s{quote_stderr(lines)}"
        if self.target.spec.url:
            self._add("server-silent", message, "is another service at this URL?")
            return
        blame, change = diagnose_start(lines, self._stray(line))
        if PurePath(self.target.spec.command[0]).stem.lower() in DOWNLOADERS and not self._stray(
            line
        ):
            blame = "machine"
            change = "its first start downloads packages: run it once in a terminal, then again"
        self._add("server-silent", message, change, blame=blame)

    def _report_failure(self, line: RawConnection, error: AccordError) -> None:
        lines = self._stderr(line)
        message = f"{error}{quote_stderr(lines)}"
        if self.target.spec.url:
            self._report_url(error)
        elif isinstance(error, ConnectFailed):
            self._add("start-failed", message, "correct the command")
        else:
            blame, change = diagnose_start(lines, self._stray(line))
            self._add("server-exited", message, change, blame=blame)

    def _report_url(self, error: AccordError) -> None:
        text = str(error)
        if isinstance(error, ConnectFailed) and "HTTP GET" not in text:
            is_certificate = "certificate" in text.lower() or "ssl" in text.lower()
            advice = (
                "trust its certificate on this machine, or renew it"
                if is_certificate
                else "is the server running, and the URL right?"
            )
            self._add("url-unreachable", text, advice)
        elif isinstance(error, MessageTimeout):
            self._add("server-silent", text, "is another service at this URL?")
        else:
            self._add("url-refused", text, "is it another path?")

    async def _report_refusal(self) -> None:
        if not self.target.spec.url:
            change = "look at its documentation for the revisions that it speaks"
            self._add("handshake-refused", f"initialize: {self._refusal}", change)
            return
        other = await self._other_form()
        if other:
            names = {"http": "Streamable HTTP", "sse": "HTTP with SSE, the older form"}
            message = f"the URL speaks {names[other]}, and the entry says otherwise"
            self._add("url-form", message, f"change the type of the entry to {other}")
            self.facts.transport = other
        else:
            self._add("url-refused", f"initialize: {self._refusal}", "is it another path?")

    async def _other_form(self) -> Form | None:
        if self.target.is_form_found:
            return None
        with contextlib.suppress(AccordError):
            found = await find_form(self.target)
            return None if found == self.target.spec.transport else found
        return None

    # -- afterwards

    def _stderr(self, line: RawConnection) -> list[str]:
        return [self._hide(each) for each in getattr(line.carrier, "stderr", ())]

    def _stray(self, line: RawConnection) -> list[str]:
        return [each.raw for each in line.log.records if each.sender == "server" and each.raw]

    def _look_back(self, line: RawConnection) -> None:
        """Judge the messages, and how the process ended."""
        self.facts.stderr = tuple(self._stderr(line))
        stray = self._stray(line) if not self.target.spec.url else []
        if stray:
            message = f"{len(stray)} line(s) on standard output are not messages:"
            change = "print to standard error, and log there"
            self._add("stdout-noise", f"{message} {shorten(stray[0], _TEXT)!r}", change)
        if getattr(line.carrier, "left_by_itself", None) is False and self.facts.revision:
            message = f"it still ran {_LEAVING:g} s after its input was closed"
            self._add("server-stays", message, "end when standard input ends")
        if not self.facts.revision:
            return
        broken = dict(_broken_rules(line))
        if stray:
            # The same fault, in other words.
            broken = {id: why for id, why in broken.items() if not id.startswith("stdio.")}
        self.facts.broken = tuple(broken)
        for id, why in broken.items():
            self._add("rule-broken", f"{id}: the server {why}", "run accord check server on it")


def _info_of(opening: dict[str, Any]) -> dict[str, Any]:
    """Return the name and version of a server that answered without a handshake."""
    meta = opening.get("_meta")
    for name, value in meta.items() if isinstance(meta, dict) else ():
        if name.rpartition("/")[2] == "serverInfo" and isinstance(value, dict):
            return value
    return {}


def _broken_rules(line: RawConnection) -> Iterator[tuple[str, str]]:
    """Yield the requirements that messages of the server broke, and how."""
    monitor = line.log.monitor
    for id, tally in monitor.tallies.items() if monitor is not None else ():
        if tally.worst == "fail":
            yield id, tally.kept[0].why if tally.kept else "breaks it"


async def check_deeply(
    target: ServerTarget, facts: LaunchFacts, hide: Callable[[str], str]
) -> list[Finding]:
    """Run the full check on a server, and add its score to the facts."""
    from accord_tools.check.server_check import check_server

    target = msgspec.structs.replace(target, patience=5.0, leaving=3.0)
    try:
        report = await check_server(target)
    except ConnectFailed as error:
        return [new_finding("deep-failed", hide(f"the full check did not begin: {error}"))]
    facts.score = report.score
    failed = [each for each in report.results if each.verdict == "fail"]
    facts.failed = tuple(each.id for each in failed)
    return [
        new_finding("deep-failed", hide(f"{each.id}: the server {each.message}")) for each in failed
    ]
