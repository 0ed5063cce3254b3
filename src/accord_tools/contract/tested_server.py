"""A server under test, its answers, and the tests: what they expect and how they end."""

import contextlib
import json
from collections.abc import Callable, Mapping
from shlex import quote
from time import monotonic
from typing import Any, Final, Literal, Self, TypeAlias

import msgspec

from accord.cli.terminal import escape_unprintable
from accord.client import ConnectOptions, blocking
from accord.errors import (
    AccordError,
    ConnectionClosed,
    LocalProtocolError,
    RemoteProtocolError,
    RequestError,
    RequestTimeout,
    TransportError,
)
from accord.protocol.syntax import is_base64
from accord.secrets.filter import hide_forms
from accord.types import AudioContent, CallToolResult, ImageContent, JsonObject, TextContent
from accord_tools.arguments.shape import KnownValues
from accord_tools.check.probing.tool_calls import CallLimit

AnswerKind: TypeAlias = Literal["result", "error", "silence", "end", "breach"]
TestVerdict: TypeAlias = Literal["pass", "fail", "skip"]
TestKind: TypeAlias = Literal["tool", "resource", "prompt", "completion", "case"]
_SHOWN: Final = 400
# Seconds for the ping that tells whether the server is still alive.
_ALIVE: Final = 2.0


class ServerAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one request, or why it is missing.

    Attributes:
        kind: a result, a JSON-RPC error, silence, the end of the server, or a breach of the
            protocol in the request or the answer.
        result: as the client returns it.
        code: of the error.
        text: the message of the error, the end or the breach.
        seconds: the duration.
    """

    kind: AnswerKind
    result: Any = None
    code: int | None = None
    text: str = ""
    seconds: float = 0.0

    def summary(self) -> str:
        """Return the answer in one line."""
        if self.kind == "result":
            return hide_forms(format_json(msgspec.to_builtins(self.result)))
        text = f"error {self.code}: {self.text}" if self.kind == "error" else self.text
        return hide_forms(text)[:_SHOWN]


class CallCommand(msgspec.Struct, frozen=True, kw_only=True):
    """How `accord call` reaches the same server: the words before and after the arguments."""

    before: str = ""
    after: str = ""

    def call(self, name: str, arguments: JsonObject) -> str:
        """Return the command that calls a tool with exactly these arguments."""
        sent = json.dumps(arguments, ensure_ascii=False)
        if not sent.isprintable():
            sent = json.dumps(arguments)
        return self._line(f"{quote(name)} --unchecked --json {quote(sent)}")

    def read(self, uri: str) -> str:
        """Return the command that reads a resource."""
        return self._line(quote(uri))

    def prompt(self, name: str, arguments: Mapping[str, str]) -> str:
        """Return the command that gets a prompt."""
        pairs = "".join(f" {quote(f'{key}={text}')}" for key, text in arguments.items())
        return self._line(f"{quote(name)}{pairs} --prompt")

    def _line(self, words: str) -> str:
        return f"accord call {self.before}{words}{self.after}" if self.before + self.after else ""


class TestedServer:
    """A server under test, asked one thing at a time.

    Args:
        target: what `accord.connect` takes.
        options: those of `accord.connect`.
        patience: seconds to wait for each answer.
        command: how the command line reaches the same server.

    Attributes:
        limit: which tools may be called, and how often.
        known: values that the server showed, from which arguments are made.
        updates_snapshots: whether cases keep their results in place of the earlier ones.
    """

    __test__ = False  # pytest collects classes of this name

    def __init__(
        self,
        target: Any,
        options: ConnectOptions | None = None,
        *,
        patience: float = 5.0,
        command: CallCommand | None = None,
    ) -> None:
        self.patience = patience
        self.command = command or CallCommand()
        self.limit = CallLimit()
        self.known = KnownValues()
        self.updates_snapshots = False
        self._target = target
        self._options: ConnectOptions = options or {}
        self._client: blocking.Client | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_remote(self) -> bool:
        """Whether the server is behind a URL, not launched by the test."""
        return isinstance(self._target, str)

    @property
    def client(self) -> blocking.Client:
        """The client; connected when first needed, and again after the server ended.

        Raises:
            ConnectFailed: the server cannot be reached.
        """
        if self._client is not None and self._client.is_closed:
            self.close()
        if self._client is None:
            self._client = blocking.connect(self._target, **self._options)
        return self._client

    def close(self) -> None:
        """Close the connection; may be repeated."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def ask(self, request: Callable[..., Any], *args: Any) -> ServerAnswer:
        """Make one request with a method of the blocking client, and return its answer."""
        client = self.client
        start = monotonic()
        try:
            result = request(client, *args, timeout=self.patience, cap=self.patience)
        except RequestTimeout:
            # Disconnects if it hangs, so that the next request is not affected.
            with contextlib.suppress(AccordError):
                self.is_alive()
            return ServerAnswer(kind="silence", text=f"no answer within {self.patience:g} s")
        except RequestError as error:
            answer = ServerAnswer(kind="error", code=error.code, text=str(error.message))
        except (LocalProtocolError, RemoteProtocolError) as error:
            answer = ServerAnswer(kind="breach", text=str(error))
        except (ConnectionClosed, TransportError) as error:
            self.close()
            return ServerAnswer(kind="end", text=f"the connection ended: {error}")
        else:
            answer = ServerAnswer(kind="result", result=result)
        return msgspec.structs.replace(answer, seconds=monotonic() - start)

    def call(self, name: str, arguments: JsonObject, *, is_reserved: bool = False) -> ServerAnswer:
        """Call a tool; media that are not base64 are a breach.

        Args:
            name: the tool.
            arguments: its arguments.
            is_reserved: whether the call was reserved for a case of the user.

        Raises:
            CallRefused: the tool may not be called, or not again.
        """
        if is_reserved:
            self.limit.claim_reserved(name)
        else:
            self.limit.claim(name)
        answer = self.ask(blocking.Client.call_tool, name, arguments)
        if answer.kind in ("result", "error"):
            is_error = answer.kind == "error" or bool(answer.result.is_error)
            self.limit.note_answer(name, is_error=is_error)
        if answer.kind == "result":
            self._note_values(answer.result)
            for block in answer.result.content:
                if isinstance(block, ImageContent | AudioContent) and not is_base64(block.data):
                    return ServerAnswer(
                        kind="breach", text=f"{block.mime_type} content is not base64"
                    )
        return answer

    def tool_names(self) -> frozenset[str] | None:
        """Return the names of the listed tools; None if they cannot be listed."""
        if self.client.capabilities.tools is None:
            return frozenset()
        answer = self.ask(lambda client, **_: [each.name for each in client.tools()])
        return frozenset(answer.result) if answer.kind == "result" else None

    def _note_values(self, result: CallToolResult) -> None:
        if result.is_error:
            return
        if result.structured_content is not msgspec.UNSET:
            self.known.note(result.structured_content)
            return
        for block in result.content:
            if isinstance(block, TextContent):
                self.known.note_text(block.text)

    def is_alive(self) -> bool:
        """Return whether the server still answers a ping."""
        if self._client is None:
            return False
        try:
            patience = min(_ALIVE, self.patience)
            self._client.ping(timeout=patience, cap=patience)
        except RequestError:
            return True
        except AccordError:
            self.close()
            return False
        return True


def format_json(value: object) -> str:
    """Return JSON in one line; a long value is cut."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text)} characters)"


# -- tests


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """What was expected, and what the server sent.

    Attributes:
        expected: the answer that was expected.
        came: the answer that the server sent.
        given: the request.
        repeat: the command line that sends it again; empty if there is no such command.
    """

    expected: str
    came: str
    given: str = ""
    repeat: str = ""

    def summary(self) -> str:
        """Return it as one line."""
        return " ".join(
            escape_unprintable(f"expected {self.expected}; received {self.came}").split()
        )

    def text(self) -> str:
        """Return it as lines for people."""
        lines = [("sent", self.given), ("expected", self.expected), ("received", self.came)]
        lines.append(("again", self.repeat))
        return "\n".join(
            f"{f'{name}:':<10}{escape_unprintable(said)}" for name, said in lines if said
        )


class TestOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict of one test, why it failed or was skipped, and the calls it made.

    Attributes:
        warning: what is doubtful although the test passed.
    """

    __test__ = False  # pytest collects classes of this name

    verdict: TestVerdict
    failure: Failure | None = None
    why: str = ""
    warning: str = ""
    calls: int = 0


class Test(msgspec.Struct, frozen=True):
    """One test: a sentence about a tool or the like, and the function that tests it."""

    __test__ = False  # pytest collects classes of this name

    kind: TestKind
    subject: str
    name: str
    run: Callable[[TestedServer], TestOutcome]


def pass_(calls: int = 1) -> TestOutcome:
    """Return the outcome of a test that passed."""
    return TestOutcome(verdict="pass", calls=calls)


def warn(warning: str, calls: int = 1) -> TestOutcome:
    """Return the outcome of a test that passed, though something is doubtful."""
    return TestOutcome(verdict="pass", warning=warning, calls=calls)


def fail(failure: Failure, calls: int = 1) -> TestOutcome:
    """Return the outcome of a test that failed."""
    return TestOutcome(verdict="fail", failure=failure, calls=calls)


def skip(why: str) -> TestOutcome:
    """Return the outcome of a test that was skipped."""
    return TestOutcome(verdict="skip", why=why)
