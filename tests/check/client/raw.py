"""A client without a library, by the book, every step of which a mutant can do otherwise.

It speaks Streamable HTTP, or takes the place of the bridge that a client over stdio launches.
"""

import asyncio
import base64
import contextlib
import hashlib
import json
import secrets
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlencode, urlsplit

import aiohttp

from accord.http.rules.sse import Decoder
from accord_tools.arguments.samples import sample

Message = dict[str, Any]
INFO = {"name": "raw", "version": "1"}


class Gone(Exception):
    """The server ended it."""


class Raw:
    """One run of a client; mutants override what they break."""

    revision: str = "2025-06-18"
    accept = "application/json, text/event-stream"
    listen_accept = "text/event-stream"
    capabilities: ClassVar[Message] = {
        "roots": {"listChanged": True},
        "sampling": {},
        "elicitation": {},
    }
    patience = 2.0
    thinking = 0.12
    # Further words of its command.
    options: ClassVar[tuple[str, ...]] = ()
    falls_back_on: ClassVar[tuple[int, ...]] = (400, 404, 405)
    scheme = "Bearer"

    def __init__(self, place: Any) -> None:
        self.place = place
        self.number = 0
        self.session: str | None = None
        self.agreed: str | None = None
        self.token: str | None = None
        self.exit_code = 0
        self.offered: Message = {}
        self.waiting: dict[Any, asyncio.Future[Message]] = {}
        self.tasks: set[asyncio.Task[Any]] = set()
        self.http: Any = None
        self.writer: Any = None
        self.cancelled: set[Any] = set()
        self.asked: dict[Any, asyncio.Task[Any]] = {}

    # -- what it does

    async def run(self) -> int:
        try:
            async with self.connected():
                opening = await self.open()
                if opening is None or "error" in opening:
                    return 3
                if not self.takes(opening["result"].get("protocolVersion")):
                    return 3
                self.offered = opening["result"].get("capabilities", {})
                await self.begin(opening)
                await self.work()
                await self.finish()
        except Gone:
            return 4
        return self.exit_code

    def takes(self, revision: Any) -> bool:
        return bool(revision == self.revision)

    async def open(self) -> Message | None:
        return await self.ask("initialize", self.opening())

    def opening(self) -> Message:
        capabilities = dict(self.capabilities)
        if self.revision < "2025-06-18":
            capabilities.pop("elicitation", None)
        return {
            "protocolVersion": self.revision,
            "capabilities": capabilities,
            "clientInfo": INFO,
        }

    def offers(self, capability: str) -> bool:
        """Tell whether the server declared a capability."""
        name, _, option = capability.partition(".")
        return name in self.offered and (not option or option in self.offered[name])

    async def begin(self, opening: Message) -> None:
        self.agreed = opening["result"].get("protocolVersion")
        await self.say({"jsonrpc": "2.0", "method": "notifications/initialized"})
        if self.place.url:
            self.spawn(self.listen())
            await asyncio.sleep(0.03)

    async def work(self) -> None:
        for method in ("tools/list", "resources/list", "resources/templates/list", "prompts/list"):
            if self.offers(method.partition("/")[0]):
                await self.list(method)
        if self.offers("tools"):
            meta = {"progressToken": "t-1"}
            params = {"name": "echo", "arguments": {"text": "a"}, "_meta": meta}
            await self.ask("tools/call", params)
        if self.offers("resources"):
            await self.ask("resources/read", {"uri": "play://note"})
            if self.offers("resources.subscribe"):
                await self.ask("resources/subscribe", {"uri": "play://note"})
        if self.offers("prompts"):
            await self.ask("prompts/get", {"name": "greet", "arguments": {"name": "Ada"}})
        if self.offers("completions"):
            reference = {"type": "ref/prompt", "name": "greet"}
            argument = {"name": "name", "value": "A"}
            await self.ask("completion/complete", {"ref": reference, "argument": argument})
        if self.offers("logging"):
            await self.ask("logging/setLevel", {"level": "info"})
        await self.ask("ping")
        await self.tell_roots()

    async def tell_roots(self) -> None:
        await self.say({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})

    async def list(self, method: str) -> None:
        reply = await self.ask(method, {})
        while (cursor := self.next_cursor(reply)) is not None:
            session = self.session
            reply = await self.ask(method, {"cursor": cursor})
            if session != self.session:
                return  # what is left belongs to a session that is gone

    def next_cursor(self, reply: Message | None) -> Any:
        return (reply or {}).get("result", {}).get("nextCursor")

    async def finish(self) -> None:
        if self.session is not None:
            await self.request("DELETE", self.head("DELETE"), None)

    # -- saying

    async def ask(self, method: str, params: Message | None = None) -> Message | None:
        """Ask, and wait for the answer; what takes too long is cancelled."""
        self.number += 1
        message: Message = {"jsonrpc": "2.0", "id": self.number, "method": method}
        if params is not None:
            message["params"] = params
        return await self.asked_with(message)

    async def asked_with(self, message: Message) -> Message | None:
        id = message.get("id")
        future = asyncio.get_running_loop().create_future()
        self.waiting[key_of(id)] = future
        sending = self.spawn(self.say(message))
        sending.add_done_callback(lambda task: _hand_on(task, future))
        is_opening = message.get("method") == "initialize"
        try:
            async with asyncio.timeout(10 if is_opening else self.patience):
                return await future
        except TimeoutError:
            if not is_opening:
                await self.give_up(id)
            sending.cancel()
            return None
        finally:
            self.waiting.pop(key_of(id), None)

    async def give_up(self, id: Any) -> None:
        params = {"requestId": id, "reason": "it took too long"}
        await self.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})

    async def say(self, message: Any) -> None:
        """Send a message; mutants change it here."""
        await self.send(json.dumps(message).encode())

    async def send(self, data: bytes) -> None:
        if self.writer is not None:
            self.writer.write(data + b"\n")
        else:
            await self.post(data)

    # -- hearing

    def hear(self, text: Any) -> None:
        try:
            message = json.loads(text)
        except ValueError:
            return
        for each in message if isinstance(message, list) else [message]:
            if not isinstance(each, dict):
                continue
            if isinstance(each.get("method"), str):
                self.heed(each)
            else:
                future = self.waiting.get(key_of(each.get("id")))
                if future is not None and not future.done():
                    future.set_result(each)

    def heed(self, message: Message) -> None:
        if "id" in message:
            self.asked[key_of(message["id"])] = self.spawn(self.answer(message))
        elif message["method"] == "notifications/cancelled":
            params = message.get("params")
            id = params.get("requestId") if isinstance(params, dict) else None
            self.stop(id)

    def stop(self, id: Any) -> None:
        task = self.asked.get(key_of(id))
        if task is not None:
            task.cancel()

    async def answer(self, question: Message) -> None:
        answer: Message = {"jsonrpc": "2.0", "id": question["id"]}
        try:
            answer["result"] = await self.result(question["method"], question.get("params") or {})
        except KeyError:
            answer["error"] = self.unknown(question)
        except ValueError:
            answer["error"] = {"code": -32602, "message": "no sense", "data": "messages"}
        await self.say(answer)

    def unknown(self, question: Message) -> Message:
        return {"code": -32601, "message": "unknown method"}

    async def result(self, method: str, params: Message) -> Message:
        if method == "ping":
            return {}
        if method == "roots/list" and "roots" in self.capabilities:
            return {"roots": [{"uri": "file:///srv", "name": "srv"}]}
        if method == "sampling/createMessage" and "sampling" in self.capabilities:
            if not isinstance(params.get("messages"), list):
                raise ValueError
            await asyncio.sleep(self.thinking)
            return {
                "role": "assistant",
                "content": {"type": "text", "text": "hello"},
                "model": "parrot",
                "stopReason": "endTurn",
            }
        if method == "elicitation/create" and "elicitation" in self.capabilities:
            return {"action": "accept", "content": sample(params["requestedSchema"])}
        raise KeyError(method)

    # -- connecting

    @contextlib.asynccontextmanager
    async def connected(self) -> Any:
        try:
            if self.place.url:
                async with aiohttp.ClientSession() as self.http:
                    yield
            else:
                yield await self.launch()
        finally:
            for task in self.tasks:
                task.cancel()
            if self.writer is not None:
                await self.leave()

    async def launch(self) -> None:
        """Be the bridge: what a launched server would pass on comes from here."""
        port, key = self.place.command[-2:]
        for kind in ("control", "data"):
            reader, writer = await asyncio.open_connection("127.0.0.1", int(port))
            writer.write(f"{key} {kind} 0\n".encode())
            if kind == "control":
                self.relay_commands, self.control = reader, writer
        self.writer = writer
        self.reading = asyncio.get_running_loop().create_task(self.read(reader))

    async def read(self, reader: Any) -> None:
        while line := await reader.readline():
            self.hear(line)

    async def leave(self) -> None:
        """Close the input of the server; tell it to end if that does not suffice."""
        self.control.write(b"input ended\n")
        self.writer.write_eof()
        if not (await asyncio.wait({self.reading}, timeout=0.1))[0]:
            self.control.write(b"signal 15\n")
        self.reading.cancel()
        with contextlib.suppress(OSError):
            self.writer.close()
            self.control.close()
            await self.control.wait_closed()

    def spawn(self, work: Any) -> "asyncio.Task[Any]":
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: "asyncio.Task[Any]") -> None:
        self.tasks.discard(task)
        if not task.cancelled():
            task.exception()

    # -- HTTP

    def head(self, method: str) -> dict[str, str]:
        heads = {"Accept": self.accept if method == "POST" else self.listen_accept}
        if method == "POST":
            heads["Content-Type"] = "application/json"
        if self.session is not None:
            heads["Mcp-Session-Id"] = self.session
        if self.agreed is not None and self.agreed >= "2025-06-18":
            heads["MCP-Protocol-Version"] = self.agreed
        if self.token is not None:
            heads["Authorization"] = f"{self.scheme} {self.token}"
        return heads

    def url_of(self, method: str) -> str:
        return str(self.place.url)

    async def request(self, method: str, heads: dict[str, str], body: bytes | None) -> Any:
        return await self.http.request(method, self.url_of(method), headers=heads, data=body)

    async def post(self, data: bytes) -> None:
        async with await self.request("POST", self.head("POST"), data) as response:
            status = response.status
            if status == 200:
                self.session = response.headers.get("Mcp-Session-Id", self.session)
                await self.take(response)
                return
            challenge = response.headers.get("WWW-Authenticate")
        if status == 401 and self.token is None:
            await self.authorize(challenge or "")
            await self.post(data)
        elif status == 404 and self.session is not None:
            await self.renew(data)
        elif status in self.falls_back_on and b'"initialize"' in data:
            (await self.request("GET", self.head("GET"), None)).close()
            self.fail(data)
        elif status >= 400:
            self.fail(data)

    def fail(self, data: bytes) -> None:
        id = json.loads(data).get("id")
        self.hear(json.dumps({"id": id, "error": {"code": 0, "message": "refused"}}))

    async def renew(self, data: bytes) -> None:
        self.session = self.agreed = None
        opening = await self.open()
        if opening is not None and "result" in opening:
            self.agreed = opening["result"]["protocolVersion"]
            await self.say({"jsonrpc": "2.0", "method": "notifications/initialized"})
            if b'"cursor"' in data:
                self.fail(data)
            else:
                await self.post(data)

    async def take(self, response: Any) -> None:
        if "event-stream" not in response.headers.get("Content-Type", ""):
            self.hear(await response.read())
            return
        last = await self.follow(response)
        while last is not None:
            await asyncio.sleep(last[1])
            heads = {**self.head("GET"), **self.resuming(last[0])}
            async with await self.request("GET", heads, None) as again:
                last = await self.follow(again)

    def resuming(self, event: str) -> dict[str, str]:
        return {"Last-Event-ID": event}

    async def follow(self, response: Any) -> tuple[str, float] | None:
        """Read a stream; returns what it takes to resume it where it broke."""
        decoder = Decoder()
        try:
            async for chunk in response.content.iter_any():
                for event in decoder.feed(chunk):
                    self.hear(event.data)
        except aiohttp.ClientError:
            if decoder.last_id is not None:
                return decoder.last_id, (decoder.retry or 0) / 1000
        return None

    async def listen(self) -> None:
        """Listen, and again where the stream breaks."""
        resumed: dict[str, str] = {}
        while True:
            async with await self.request("GET", {**self.head("GET"), **resumed}, None) as response:
                if response.status != 200:
                    return
                last = await self.follow(response)
            if last is None:
                return
            resumed = self.resuming(last[0])
            await asyncio.sleep(last[1])

    # -- authorization

    async def authorize(self, challenge: str) -> None:
        about = await self.discover(challenge)
        registered = {"redirect_uris": [self.redirect()], "client_name": "raw"}
        async with self.http.post(about["registration_endpoint"], json=registered) as response:
            if response.status != 201:
                raise Gone
            client = await response.json()
        verifier = secrets.token_urlsafe(32)
        wanted = self.wanted(client["client_id"], verifier)
        url = f"{about['authorization_endpoint']}?{urlencode(wanted)}"
        async with self.http.get(url, allow_redirects=False) as response:
            back = parse_qs(urlsplit(response.headers["Location"]).query)
        if not self.is_ours(back.get("state", [""])[0], wanted.get("state", "")):
            raise Gone
        form = self.form(client["client_id"], back["code"][0], verifier)
        async with self.http.post(about["token_endpoint"], data=form) as response:
            self.token = (await response.json())["access_token"]

    async def discover(self, challenge: str) -> Message:
        """Find the endpoints of the authorization server."""
        parts = urlsplit(self.place.url)
        issuer = origin = f"{parts.scheme}://{parts.netloc}"
        if "resource_metadata" in challenge:
            async with self.http.get(self.metadata_of(challenge)) as response:
                issuer = (await response.json())["authorization_servers"][0]
        heads = {"MCP-Protocol-Version": self.revision}
        found = f"{issuer}/.well-known/oauth-authorization-server"
        async with self.http.get(found, headers=heads) as response:
            if response.status == 200:
                return dict(await response.json())
        return {f"{kind}_endpoint": origin + path for kind, path in self.defaults().items()}

    def metadata_of(self, challenge: str) -> str:
        return challenge.partition('resource_metadata="')[2].partition('"')[0]

    def defaults(self) -> dict[str, str]:
        return {"registration": "/register", "authorization": "/authorize", "token": "/token"}

    def redirect(self) -> str:
        return "http://localhost:3000/callback"

    def wanted(self, client: str, verifier: str) -> dict[str, str]:
        digest = hashlib.sha256(verifier.encode()).digest()
        return {
            "response_type": "code",
            "client_id": client,
            "redirect_uri": self.redirect(),
            "state": secrets.token_urlsafe(8),
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
            "resource": self.place.url,
        }

    def form(self, client: str, code: str, verifier: str) -> dict[str, str]:
        return {
            "grant_type": "authorization_code",
            "client_id": client,
            "code": code,
            "code_verifier": verifier,
            "redirect_uri": self.redirect(),
            "resource": self.place.url,
        }

    def is_ours(self, state: str, ours: str) -> bool:
        return state == ours


def _hand_on(task: "asyncio.Task[Any]", future: "asyncio.Future[Message]") -> None:
    if not task.cancelled() and task.exception() is not None and not future.done():
        future.set_exception(Gone())


def key_of(id: Any) -> Any:
    return (type(id).__name__, str(id))
