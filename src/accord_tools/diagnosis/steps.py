"""The steps of connecting to a server: what each found, the network, and the first requests."""

import asyncio
import contextlib
import os
import socket
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, NoReturn, TypeAlias

import msgspec

from accord.cli.terminal import escape_controls
from accord.http.client.sender import ConnectionCut, HttpClientOptions, NotSent
from accord.http.rules.headers import ACCEPT_BOTH, SESSION
from accord.protocol.revisions import HANDSHAKE
from accord.secrets.filter import hide_forms

if TYPE_CHECKING:
    from multidict import CIMultiDictProxy


StepVerdict: TypeAlias = Literal["ok", "warning", "failed", "skipped"]


class DiagnosisStep(msgspec.Struct, kw_only=True):
    """One step: the request, the answer, and what to change if the step is not ok."""

    name: str
    verdict: StepVerdict
    asked: str = ""
    came: str = ""
    change: str = ""


_STYLES: Final = {"ok": "green", "warning": "yellow", "failed": "bold red", "skipped": "dim"}
_NAME_WIDTH: Final = len("authorization server")


def format_step(step: DiagnosisStep, paint: Callable[[str, str], str]) -> str:
    """Return a step for a terminal, with what to change."""
    verdict = paint(_STYLES[step.verdict], f"{step.verdict:8}")
    lines = [f"{verdict} {step.name:{_NAME_WIDTH}}  {escape_controls(step.came)}"]
    if step.verdict in ("warning", "failed"):
        lines.append(f"{'':9}asked: {escape_controls(step.asked)}")
    if step.change:
        lines.append(f"{'':9}change: {escape_controls(step.change)}")
    return "\n".join(lines) + "\n"


class Stopped(Exception):
    """No further step makes sense."""


class StepList:
    """The steps of one diagnosis, each reported as soon as it is done.

    Args:
        report: called with each step.

    Attributes:
        hide: hides secrets in a text of a step.
        target: the server, for people.
        steps: those that were taken, in order.
    """

    unreachable: frozenset[str] = frozenset()
    """Names of steps without which the server cannot be reached at all."""

    def __init__(self, target: str, report: Callable[[DiagnosisStep], object]) -> None:
        self.hide: Callable[[str], str] = hide_forms
        self.target = target
        self.steps: list[DiagnosisStep] = []
        self._report = report

    @property
    def failures(self) -> set[str]:
        """The names of the steps that failed."""
        return {each.name for each in self.steps if each.verdict == "failed"}

    def add(self, name: str, verdict: StepVerdict, *, change: str = "", **facts: str) -> None:
        """Note a step, and report it."""
        facts = {fact: self.hide(text) for fact, text in facts.items()}
        step = DiagnosisStep(name=name, verdict=verdict, change=self.hide(change), **facts)
        self.steps.append(step)
        self._report(step)

    def stop(self, name: str, **facts: str) -> NoReturn:
        """Note a failed step after which no other makes sense."""
        self.add(name, "failed", **facts)
        raise Stopped


_EXPIRES_SOON: Final = 14 * 86_400


async def resolve_host(host: str, port: int, seconds: float) -> tuple[DiagnosisStep, list[str]]:
    """Resolve a host name; return the step and the addresses."""
    asked = f"the addresses of {host}"
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(seconds):
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, TimeoutError) as error:
        change = "correct the host name, or the name server of this machine"
        came = shown_reason(error)
        failed = DiagnosisStep(name="dns", verdict="failed", asked=asked, came=came, change=change)
        return failed, []
    addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
    came = ", ".join(addresses[:4])
    return DiagnosisStep(name="dns", verdict="ok", asked=asked, came=came), addresses


async def open_port(addresses: Sequence[str], port: int, seconds: float) -> DiagnosisStep:
    """Connect to the first address that takes connections."""
    asked = f"a connection to port {port}"
    refused: list[str] = []
    for address in addresses:
        try:
            async with asyncio.timeout(seconds):
                _, writer = await asyncio.open_connection(address, port)
        except (OSError, TimeoutError) as error:
            refused.append(f"{address}: {shown_reason(error)}")
            continue
        writer.close()
        if not refused:
            came = f"connected to {address}"
            return DiagnosisStep(name="tcp", verdict="ok", asked=asked, came=came)
        change = "remove addresses where nothing listens: clients lose time on them"
        came = "; ".join(refused)[:300]
        return DiagnosisStep(name="tcp", verdict="warning", asked=asked, came=came, change=change)
    change = "start the server, open the port in the firewall, or correct the port"
    came = "; ".join(refused)[:300]
    return DiagnosisStep(name="tcp", verdict="failed", asked=asked, came=came, change=change)


async def check_tls(host: str, port: int, seconds: float) -> DiagnosisStep:
    """Make a TLS connection and look at the certificate."""
    asked = f"TLS with {host}"
    try:
        async with asyncio.timeout(seconds):
            _, writer = await asyncio.open_connection(host, port, ssl=ssl.create_default_context())
    except ssl.SSLCertVerificationError as error:
        change = f"serve a certificate that is valid for {host}, with its chain"
        came = error.verify_message
        return DiagnosisStep(name="tls", verdict="failed", asked=asked, came=came, change=change)
    except (OSError, TimeoutError) as error:
        change = "check the port: it may speak plain HTTP"
        came = shown_reason(error)
        return DiagnosisStep(name="tls", verdict="failed", asked=asked, came=came, change=change)
    tls: Any = writer.get_extra_info("ssl_object")
    ends = ssl.cert_time_to_seconds(tls.getpeercert()["notAfter"])
    writer.close()
    days = int((ends - time.time()) / 86_400)
    came = f"{tls.version()}, certificate valid for {days} days"
    if ends - time.time() < _EXPIRES_SOON:
        change = "renew it soon"
        return DiagnosisStep(name="tls", verdict="warning", asked=asked, came=came, change=change)
    return DiagnosisStep(name="tls", verdict="ok", asked=asked, came=came)


def shown_reason(error: BaseException) -> str:
    """Return the reason of an error of the network, in one short line."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    number = getattr(error, "errno", None)
    if isinstance(number, int) and number > 0:
        return os.strerror(number).lower()
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(text).strip().split("\n", 1)[0][:200]


_BODY_LIMIT: Final = 4_096
_END_TIMEOUT: Final = 3.0


class OpeningExchange(NamedTuple):
    """An `initialize` request as it was sent, and its answer; the body only if it is a refusal."""

    sent_headers: Mapping[str, str]
    sent_body: bytes
    status: int
    headers: "CIMultiDictProxy[str]"
    body: bytes


async def post_initialize(url: str, headers: Mapping[str, str], *, client: str) -> OpeningExchange:
    """Send `initialize` to a URL, and end the session that it may open.

    Args:
        url: of the server.
        headers: sent beside the usual ones.
        client: the name of the client in the request.

    Raises:
        OSError: the request got no answer.
    """
    from accord.http.client.aiohttp_sender import AiohttpSender

    params = {
        "protocolVersion": [*HANDSHAKE][-1],
        "capabilities": {},
        "clientInfo": {"name": client, "version": "1"},
    }
    message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    data = msgspec.json.encode(message)
    sent = {"Accept": ACCEPT_BOTH, "Content-Type": "application/json", **headers}
    sender = AiohttpSender(HttpClientOptions(proxy=""), keeps_cookies=False)
    try:
        response = await sender.send("POST", url, sent, data)
        body = b"" if response.status < 300 else (await response.chunk())[:_BODY_LIMIT]
        response.close()
        if opened := response.header(SESSION):
            # The session is not used again; its end may be refused.
            with contextlib.suppress(NotSent, ConnectionCut, TimeoutError):
                async with asyncio.timeout(_END_TIMEOUT):
                    (await sender.send("DELETE", url, {**sent, SESSION: opened})).close()
    except (NotSent, ConnectionCut) as error:
        raise OSError(None, str(error)) from None
    else:
        return OpeningExchange(sent, data, response.status, response.headers, body)
    finally:
        await sender.close()


async def ask_first_list(client: Any) -> tuple[str, str]:
    """Ask for the first list that the server offers, or ping it; return what was asked and came."""
    can = client.capabilities
    for method, offered, ask in (
        ("tools/list", can.tools, client.list_tools),
        ("resources/list", can.resources, client.list_resources),
        ("prompts/list", can.prompts, client.list_prompts),
    ):
        if offered is not None:
            page = await ask()
            count = len(getattr(page, method.partition("/")[0]))
            return method, f"{count} on the first page"
    await client.ping()
    return "ping", "an answer; it declares nothing to list"
