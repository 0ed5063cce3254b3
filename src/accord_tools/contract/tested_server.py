"""A server under test, its answers, and the tests of what it declares."""

import contextlib
import json
from collections.abc import Callable, Mapping
from functools import partial
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
from accord.json_schema.reader import required_names
from accord.json_schema.validation import compile_schema
from accord.protocol.jsonrpc import INTERNAL_ERROR, METHOD_NOT_FOUND, PARSE_ERROR
from accord.protocol.syntax import is_base64
from accord.protocol.uri_template import parse
from accord.secrets.filter import hide_forms
from accord.types import (
    AudioContent,
    CallToolResult,
    ImageContent,
    JsonObject,
    PromptReference,
    ResourceTemplateReference,
    TextContent,
)
from accord_tools.arguments.shape import KnownValues, Shape
from accord_tools.check.probing.tool_calls import (
    DEFAULT_CALLS,
    CallLimit,
    CallRefused,
    tool_refusal,
)
from accord_tools.reports.wording import plural

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


# -- tests of what a server declares

# A well-formed request is never answered with these.
BAD_CODES: Final = frozenset({INTERNAL_ERROR, METHOD_NOT_FOUND, PARSE_ERROR})
_VALUE: Final = "text"
_VALID: Final = "a result, or an error other than an internal one"
_REFUSAL: Final = "a refusal: isError, or error -32602"
_PROMPT_REFUSAL: Final = "a refusal: error -32602"


class ContractRules(msgspec.Struct, frozen=True, kw_only=True):
    """Which tools may be called, and how often.

    Attributes:
        tools: the only tools to call, whatever they do; empty lets their annotations decide.
        allow_writes: also call tools that change something, unless they destroy it.
        examples: generated arguments for each tool.
        seed: the same seed gives the same arguments.
        calls: the limit of calls for each tool; 0 calls none, None is enough for the examples.
    """

    tools: frozenset[str] = frozenset()
    allow_writes: bool = False
    examples: int = 25
    seed: int = 0
    calls: int | None = None

    @property
    def most_calls(self) -> int:
        """The limit of calls for each tool."""
        # Calls at the limits, invalid ones, and the search for a smaller input are extra.
        return max(DEFAULT_CALLS, 4 * self.examples) if self.calls is None else self.calls

    def refusal(self, tool: JsonObject, *, is_remote: bool) -> str | None:
        """Return why a tool is not called; None if it may be called.

        Args:
            tool: as the server lists it.
            is_remote: whether the server is behind a URL, not launched by the test.
        """
        why = tool_refusal(
            tool, allow_writes=self.allow_writes, chosen=self.tools, is_remote=is_remote
        )
        if why is None and not self.most_calls:
            return "--calls 0 allows no calls"
        return why


def tool_tests(tool: JsonObject, rules: ContractRules, refused: str | None = None) -> list[Test]:
    """Return the tests of a tool.

    Args:
        tool: as the server lists it.
        rules: how much is tried.
        refused: why it is not called; None if it may be called.
    """
    name = str(tool["name"])
    if refused is not None:
        return [Test("tool", name, f"{name} is not called", lambda _: skip(refused))]
    try:
        shape = Shape(tool.get("inputSchema"))
    except ValueError as error:
        reason = f"no arguments can be made: {error}"
        return [Test("tool", name, f"{name} keeps its contract", lambda _: skip(reason))]
    judge = _Judge(name, tool.get("outputSchema"))
    runs: list[tuple[str, Callable[[TestedServer], TestOutcome]]] = [
        ("answers valid arguments", partial(_call_generated, judge, shape, rules)),
        ("answers arguments at their limits", partial(_call_at_limits, judge, shape)),
        *(
            (f"refuses {way}", partial(_call_each, judge, judge.refusal, arguments))
            for way, arguments in shape.invalid()
        ),
    ]
    return [Test("tool", name, f"{name} {does}", run) for does, run in runs]


def success_test(tool: JsonObject) -> Test | None:
    """Return the test that some call of a tool succeeds; None if it cannot be called.

    It runs after the other tests of tools, whose results give it arguments.
    """
    try:
        shape = Shape(tool.get("inputSchema"))
    except ValueError:
        return None
    name = str(tool["name"])
    judge = _Judge(name, tool.get("outputSchema"))
    run = partial(_expect_success, judge, shape)
    return Test("tool", name, f"{name} succeeds for some arguments", run)


_Fault: TypeAlias = tuple[str, str] | None
"""What a call should get and what it got; None if that is right."""


class _Judge:
    """Judges the answers of one tool."""

    def __init__(self, name: str, output: object) -> None:
        self.name = name
        self._misfit = compile_schema(output) if isinstance(output, dict) else None

    def result(self, answer: ServerAnswer) -> _Fault:
        """Judge the answer to a valid call."""
        if answer.kind == "error" and answer.code in BAD_CODES:
            return _VALID, answer.summary()
        if answer.kind in _EXPECTED:
            return _EXPECTED[answer.kind], answer.summary()
        if answer.kind == "error" or answer.result.is_error or self._misfit is None:
            return None
        structured = answer.result.structured_content
        if structured is msgspec.UNSET:
            return "structured content, for there is an output schema", answer.summary()
        why = self._misfit(structured)
        if why is None:
            return None
        return "structured content that fits the output schema", f"{why}: {format_json(structured)}"

    def refusal(self, answer: ServerAnswer) -> _Fault:
        """Judge the answer to an invalid call."""
        if answer.kind == "error":
            return (_REFUSAL, answer.summary()) if answer.code in BAD_CODES else None
        if answer.kind in _EXPECTED:
            return f"{_REFUSAL}; {_EXPECTED[answer.kind]}", answer.summary()
        if answer.result.is_error:
            return None
        return _REFUSAL, f"accepted: {answer.summary()}"

    def failure(
        self, server: TestedServer, arguments: JsonObject, wrong: tuple[str, str]
    ) -> Failure:
        expected, came = wrong
        given = format_json(arguments)
        again = server.command.call(self.name, arguments)
        return Failure(expected=expected, came=came, given=given, repeat=again)


_EXPECTED: Final = {
    "silence": "an answer in time",
    "end": "a server that stays alive",
    "breach": "an answer that keeps the protocol and the output schema",
}


def _call_generated(
    judge: _Judge, shape: Shape, rules: ContractRules, server: TestedServer
) -> TestOutcome:
    # The generator is an extra.
    from accord_tools.arguments.generation import Enough, Found, NothingGenerated, smallest_failure

    calls = 0
    # Half of the calls are left for the other tests of the tool.
    examples = min(rules.examples, (server.limit.calls_left(judge.name) + 1) // 2)
    if not examples:
        return skip(server.limit.exhausted_text([judge.name]))

    def attempt(arguments: JsonObject) -> Found[Failure] | None:
        nonlocal calls
        try:
            answer = server.call(judge.name, arguments)
        except CallRefused:
            raise Enough from None
        calls += 1
        wrong = judge.result(answer)
        if wrong is None:
            return None
        return Found(answer.kind, judge.failure(server, arguments, wrong))

    try:
        found = smallest_failure(
            shape.for_generator(),
            attempt,
            is_valid=shape.is_valid,
            examples=examples,
            seed=rules.seed,
        )
    except NothingGenerated as error:
        return skip(f"no arguments can be generated from its schema: {error}")
    if found is not None:
        return fail(found.failure, calls)
    return _expect_alive(server, calls)


def _call_at_limits(judge: _Judge, shape: Shape, server: TestedServer) -> TestOutcome:
    outcome = _call_each(judge, judge.result, shape.boundaries(), server)
    return _expect_alive(server, outcome.calls) if outcome.verdict == "pass" else outcome


def _call_each(
    judge: _Judge,
    find_fault: Callable[[ServerAnswer], _Fault],
    made: list[JsonObject],
    server: TestedServer,
) -> TestOutcome:
    for number, arguments in enumerate(made):
        if not server.limit.calls_left(judge.name):
            exhausted = server.limit.exhausted_text([judge.name])
            why = f"{exhausted} after {number} of {len(made)} calls of this test"
            return TestOutcome(verdict="skip", why=why, calls=number)
        wrong = find_fault(server.call(judge.name, arguments))
        if wrong is not None:
            return fail(judge.failure(server, arguments, wrong), number + 1)
    return pass_(len(made))


def _expect_success(judge: _Judge, shape: Shape, server: TestedServer) -> TestOutcome:
    """Expect that a call succeeded before, or that one of a few likely ones does."""
    limit, calls, arguments, said = server.limit, 0, shape.plain, ""
    for arguments in shape.likely(server.known):
        if limit.counts(judge.name).succeeded or not limit.calls_left(judge.name):
            break
        answer = server.call(judge.name, arguments)
        calls, said = calls + 1, answer.summary()
        wrong = judge.result(answer)
        if wrong is not None:
            return fail(judge.failure(server, arguments, wrong), calls)
    counts = limit.counts(judge.name)
    if counts.succeeded:
        return pass_(calls)
    if not counts.refused:
        return skip(limit.exhausted_text([judge.name]))
    none = f"none of {plural(counts.calls, 'call')} succeeded"
    if required_names(shape.schema):
        return warn(f"{none}; give examples of valid arguments in its inputSchema", calls)
    wrong = ("a call that succeeds, for no argument is required", f"{none}; {said}".rstrip("; "))
    return fail(judge.failure(server, arguments, wrong), calls)


def _expect_alive(server: TestedServer, calls: int) -> TestOutcome:
    if server.is_alive():
        return pass_(calls)
    failure = Failure(expected="a server that stays alive", came="no answer to a ping after these")
    return fail(failure, calls)


# -- resources, prompts, completions


def resource_tests(resource: JsonObject) -> list[Test]:
    """Return the test that a resource can be read."""
    uri = str(resource["uri"])
    return [_read_test("a result", uri, uri, f"resource {uri} can be read")]


def template_tests(template: JsonObject, *, completes: bool) -> list[Test]:
    """Return the tests of a template: the server answers any value, even if with an error."""
    text = str(template["uriTemplate"])
    try:
        parsed = parse(text)
        uri = parsed.expand(dict.fromkeys(parsed.variables, _VALUE))
    except ValueError as error:
        failed = fail(Failure(expected="a URI template", came=str(error), given=text), calls=0)
        return [Test("resource", text, f"template {text} can be used", lambda _: failed)]
    tests = [_read_test(_VALID, text, uri, f"template {text} answers any value")]
    if completes:
        reference = ResourceTemplateReference(text)
        tests += [_completion(reference, text, name) for name in parsed.variables]
    return tests


def prompt_tests(prompt: JsonObject, *, completes: bool) -> list[Test]:
    """Return the tests of a prompt: the server returns it, but not without required arguments."""
    name = str(prompt["name"])
    listed = [each for each in prompt.get("arguments") or () if isinstance(each, dict)]
    full = {str(each["name"]): _VALUE for each in listed}
    get = blocking.Client.get_prompt
    run = partial(
        _ask_once,
        _VALID,
        (get, name, full or None),
        given=f"{name} {full}",
        repeat=lambda command: command.prompt(name, full),
    )
    tests = [Test("prompt", name, f"prompt {name} answers", run)]
    for missing in [str(each["name"]) for each in listed if each.get("required")]:
        rest = {key: value for key, value in full.items() if key != missing}
        run = partial(_ask_once, _PROMPT_REFUSAL, (get, name, rest or None), given=f"{name} {rest}")
        sentence = f"prompt {name} refuses a request without {missing}"
        tests.append(Test("prompt", name, sentence, run))
    if completes:
        tests += [_completion(PromptReference(name), f"prompt {name}", each) for each in full]
    return tests


def _read_test(expected: str, subject: str, uri: str, sentence: str) -> Test:
    request = (blocking.Client.read_resource, uri)
    run = partial(_ask_once, expected, request, given=uri, repeat=lambda command: command.read(uri))
    return Test("resource", subject, sentence, run)


def _completion(
    reference: PromptReference | ResourceTemplateReference, subject: str, argument: str
) -> Test:
    request = (blocking.Client.complete, reference, argument, "")
    given = f"{subject}, {argument}, nothing typed"
    sentence = f"completion of {argument} of {subject} answers"
    return Test("completion", subject, sentence, partial(_ask_once, _VALID, request, given=given))


def _ask_once(
    expected: str,
    request: tuple[Any, ...],
    server: TestedServer,
    *,
    given: str,
    repeat: Callable[[CallCommand], str] | None = None,
) -> TestOutcome:
    """Make one request with a method of the blocking client, and judge the answer."""
    answer = server.ask(*request)
    is_refused = answer.kind == "error" and answer.code not in BAD_CODES
    is_result = answer.kind == "result"
    is_right = {"a result": is_result, _VALID: is_result or is_refused, _PROMPT_REFUSAL: is_refused}
    if is_right[expected]:
        return pass_()
    again = "" if repeat is None else repeat(server.command)
    return fail(Failure(expected=expected, came=answer.summary(), given=given, repeat=again))
