"""The user's own test cases, in files of TOML or YAML: requests and expected answers."""

import importlib.util
import re
import sys
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from shlex import join, quote
from typing import Annotated, Any, Final, TypeVar

import msgspec

from accord.check.contract.data_files import parse_toml, parse_yaml
from accord.check.contract.declared_tests import ContractRules
from accord.check.contract.tested_server import (
    CallCommand,
    Failure,
    ServerAnswer,
    Test,
    TestedServer,
    TestOutcome,
    fail,
    format_json,
    pass_,
)
from accord.client import blocking
from accord.errors import AccordError
from accord.protocol.revisions import HANDSHAKE
from accord.server import Server
from accord.types import (
    CallToolResult,
    EmbeddedResource,
    GetPromptResult,
    JsonObject,
    ReadResourceResult,
    TextContent,
)

T = TypeVar("T", bound=msgspec.Struct)

_TRANSPORTS: Final = ("stdio", "memory", "http", "sse")
_VERBS: Final = ("call", "read", "prompt", "offers")
# What `offers` may begin with: the list, and the member that names an entry.
_LISTS: Final = {
    "tool": ("tools", "name"),
    "resource": ("resources", "uri"),
    "template": ("resource_templates", "uri_template"),
    "prompt": ("prompts", "name"),
}
_NAMED: Final = 10
_WORDS: Final = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "int": "a whole number",
    "null": "nothing",
    "object": "a table",
    "str": "a text",
}


class CaseError(AccordError):
    """A mistake in a file of cases; the message names the line."""


class Expectation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The expected answer; everything that is given has to match.

    Attributes:
        text: the text of all content, line by line.
        contains: a part of the text, or a list of parts.
        matches: a regular expression, found anywhere in the text.
        structured: the whole structured result.
        partly: members of the structured result, at any depth.
        error: True for any error, or a part of its text.
        code: of a JSON-RPC error.
        within: seconds.
    """

    text: str | None = None
    contains: str | list[str] = []
    matches: str | None = None
    structured: Any = msgspec.UNSET
    partly: Any = msgspec.UNSET
    error: bool | str = False
    code: int | None = None
    within: float | None = None


class Case(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One case: `call` a tool, `read` a resource, get a `prompt`, or find an entry.

    `offers` names the entry with its kind, such as "tool add".
    """

    name: str
    call: str | None = None
    read: str | None = None
    prompt: str | None = None
    offers: str | None = None
    arguments: JsonObject = {}
    expect: Expectation = Expectation()


class CaseFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of cases.

    Attributes:
        target: the server; the path of a file is relative to this file.
        command: what launches it, in place of a target.
        transport: "stdio", "memory", "http" or "sse".
        revision: the revision to speak.
        timeout: seconds to wait for each answer.
        contract: whether contract tests are made from what the server declares.
        tools: the only tools that contract tests call, whatever they do.
        allow_writes: whether contract tests call tools that change something.
        examples: generated arguments for each tool.
        seed: the same seed gives the same arguments.
        calls: the limit of calls for each tool.
    """

    target: str | None = None
    command: list[str] = []
    transport: str | None = None
    revision: str | None = None
    timeout: float = 5.0
    contract: bool = True
    tools: list[str] = []
    allow_writes: bool = False
    examples: int = 25
    seed: int = 0
    calls: Annotated[int, msgspec.Meta(ge=0)] | None = None
    case: list[Case] = []


def read_cases(path: Path) -> CaseFile:
    """Read a file of cases.

    Raises:
        CaseError: it cannot be read, has a mistake, or is YAML without PyYAML installed.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "not UTF-8"
        raise CaseError(f"{path}: {why}") from None
    is_yaml = path.suffix in (".yaml", ".yml")
    loaded = (parse_yaml if is_yaml else parse_toml)(path, text, CaseError)
    return _Reader(path, text, is_yaml=is_yaml).file(loaded)


class _Reader:
    """Converts loaded data to cases; knows the line where each case begins."""

    def __init__(self, path: Path, text: str, *, is_yaml: bool) -> None:
        self._path = path
        begin = r"^\s*-\s" if is_yaml else r"^\s*\[\[\s*case\s*\]\]"
        self._lines = [
            number for number, line in enumerate(text.splitlines(), 1) if re.match(begin, line)
        ]

    def file(self, loaded: object) -> CaseFile:
        if not isinstance(loaded, dict):
            raise CaseError(f"{self._path}: has no cases; expected [[case]] tables")
        self._refuse_unknown(loaded, CaseFile, str(self._path))
        listed = loaded.get("case", [])
        if not isinstance(listed, list):
            raise CaseError(f"{self._path}: case is not a list; write [[case]] with two brackets")
        cases = [self._case(number, each) for number, each in enumerate(listed)]
        names = [each.name for each in cases]
        for number, name in enumerate(names):
            if name in names[:number]:
                raise CaseError(f"{self._place(number)}: there are two cases {name!r}")
        rest = {key: value for key, value in loaded.items() if key != "case"}
        file = self._convert(rest, CaseFile, str(self._path))
        return msgspec.structs.replace(file, case=cases)

    def _place(self, number: int) -> str:
        line = f":{self._lines[number]}" if number < len(self._lines) else ""
        return f"{self._path}{line}"

    def _case(self, number: int, given: object) -> Case:
        place = self._place(number)
        if not isinstance(given, dict):
            raise CaseError(f"{place}: case {number + 1} is not a table")
        name = given.get("name")
        is_named = isinstance(name, str) and name.strip() != ""
        where = f"{place}: case {repr(name) if is_named else number + 1}"
        self._refuse_unknown(given, Case, where)
        if not is_named:
            raise CaseError(f"{where} has no name")
        expect = given.get("expect", {})
        if isinstance(expect, dict):
            self._refuse_unknown(expect, Expectation, f"{where}: expect")
        case = self._convert(given, Case, where)
        asked = [verb for verb in _VERBS if getattr(case, verb) is not None]
        if len(asked) != 1:
            said = "has both " + " and ".join(asked) if asked else "has nothing to ask"
            raise CaseError(f"{where} {said}; expected one of {', '.join(_VERBS)}")
        _refuse_senseless(case, asked[0], where)
        return case

    def _refuse_unknown(self, given: JsonObject, kind: type[T], where: str) -> None:
        known = [field.name for field in msgspec.structs.fields(kind)]
        for key in given:
            if key not in known:
                close = get_close_matches(str(key), known, n=1, cutoff=0.6)
                hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(known)}"
                raise CaseError(f"{where} has no key {key}; {hint}")

    def _convert(self, given: JsonObject, kind: type[T], where: str) -> T:
        try:
            return msgspec.convert(given, kind)
        except msgspec.ValidationError as error:
            said, _, at = str(error).partition(" - at `$.")
            found = re.fullmatch(r"Expected `(.*)`, got `(.*)`", said)
            if found is not None:
                kinds = [each for each in found[1].split(" | ") if each != "null"]
                expected = " or ".join(_WORDS.get(each, each) for each in kinds)
                said = f"is {_WORDS.get(found[2], found[2])}, expected {expected}"
            key = f"{at.rstrip('`')} " if at else ""
            raise CaseError(f"{where}: {key}{said[:1].lower()}{said[1:]}") from None


def _refuse_senseless(case: Case, verb: str, where: str) -> None:
    expect = case.expect
    if verb == "offers":
        kind, _, name = (case.offers or "").partition(" ")
        if kind not in _LISTS or not name:
            kinds = ", ".join(_LISTS)
            raise CaseError(f"{where}: offers is a kind and a name; the kinds are {kinds}")
        if case.arguments or expect != Expectation():
            raise CaseError(f"{where}: a case with offers has neither arguments nor expect")
    if verb == "read" and case.arguments:
        raise CaseError(f"{where}: a resource takes no arguments; write them into the URI")
    if verb != "call" and (expect.structured, expect.partly) != (msgspec.UNSET, msgspec.UNSET):
        raise CaseError(f"{where}: only a tool has a structured result")
    if verb == "prompt" and not all(isinstance(each, str) for each in case.arguments.values()):
        raise CaseError(f"{where}: arguments of a prompt must be strings")
    if expect.matches is not None:
        try:
            re.compile(expect.matches)
        except re.error as error:
            raise CaseError(f"{where}: matches is not a regular expression: {error}") from None


# -- the server that a file names


def resolve_target(target: str, path: Path) -> str:
    """Return a target that works in any folder; the path of a file is relative to the cases."""
    if target.startswith(("http://", "https://")):
        return target
    where, colon, name = target.rpartition(":")
    if not colon:
        where, name = target, ""
    file = path.parent / where
    return f"{file.resolve()}{colon}{name}" if file.is_file() else target


def rules_of(file: CaseFile) -> ContractRules | None:
    """Return what contract tests may do; None if the file asks for none."""
    if not file.contract:
        return None
    return ContractRules(
        tools=frozenset(file.tools),
        allow_writes=file.allow_writes,
        examples=file.examples,
        seed=file.seed,
        calls=file.calls,
    )


def server_of(file: CaseFile, path: Path) -> TestedServer:
    """Return the server that a file names; it is launched when first used.

    Raises:
        CaseError: it names no server, or options that do not fit.
    """
    if (file.target is None) == (not file.command):
        raise CaseError(f"{path}: names no server; expected target = ... or command = [...]")
    transport = file.transport
    if transport is not None and transport not in _TRANSPORTS:
        raise CaseError(f"{path}: transport is {transport!r}, expected {', '.join(_TRANSPORTS)}")
    if file.revision is not None and file.revision not in HANDSHAKE:
        known = ", ".join(HANDSHAKE)
        raise CaseError(f"{path}: revision is {file.revision!r}, expected one of {known}")
    options: dict[str, Any] = {} if file.revision is None else {"revision": file.revision}
    if file.command:
        options["cwd"] = path.parent
        command = CallCommand(after=f" -- {join(file.command)}")
        return TestedServer(file.command, options, patience=file.timeout, command=command)  # type: ignore[arg-type]  # checked above
    assert file.target is not None
    target = resolve_target(file.target, path)
    reached: object = [sys.executable, "-P", "-m", "accord.cli.main", "run", "--stdio", target]
    if target.startswith(("http://", "https://")):
        reached = target
        options |= {} if transport is None else {"transport": transport}
    elif transport == "memory":
        reached = _load_server(target, path)
    command = CallCommand(before=f"{quote(target)} ")
    return TestedServer(reached, options, patience=file.timeout, command=command)  # type: ignore[arg-type]  # checked above


def _load_server(target: str, path: Path) -> Server[Any]:
    """Import the server from a Python file into this process."""
    where, colon, name = target.rpartition(":")
    file = Path(where if colon else target)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None or not file.is_file():
        raise CaseError(f"{path}: in memory a target is a Python file, not {target}")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(file.stem, module)
    spec.loader.exec_module(module)
    found = [each for each in vars(module).values() if isinstance(each, Server)]
    if colon:
        found = [each for each in [getattr(module, name, None)] if isinstance(each, Server)]
    if len(found) != 1:
        raise CaseError(f"{path}: {target} has {len(found)} servers, expected one")
    return found[0]


# -- the tests of cases: the request, the answer, and the expectation it breaks


def case_test(case: Case) -> Test:
    """Return the test that a case describes."""

    def run(server: TestedServer) -> TestOutcome:
        if case.offers is not None:
            return _look_for(case.offers, server)
        answer, given, repeat = _send(case, server)
        wrong = next(_mismatches(case.expect, answer), None)
        if wrong is None:
            return pass_()
        expected, came = wrong
        return fail(Failure(expected=expected, came=came, given=given, repeat=repeat))

    return Test("case", case.call or case.read or case.prompt or case.offers or "", case.name, run)


def _send(case: Case, server: TestedServer) -> tuple[ServerAnswer, str, str]:
    if case.call is not None:
        answer = server.call(case.call, case.arguments, is_reserved=True)
        repeat = server.command.call(case.call, case.arguments)
        return answer, f"{case.call} {format_json(case.arguments)}", repeat
    if case.read is not None:
        answer = server.ask(blocking.Client.read_resource, case.read)
        return answer, case.read, server.command.read(case.read)
    assert case.prompt is not None
    answer = server.ask(blocking.Client.get_prompt, case.prompt, case.arguments or None)
    repeat = server.command.prompt(case.prompt, case.arguments)
    return answer, f"{case.prompt} {format_json(case.arguments)}", repeat


def _look_for(offered: str, server: TestedServer) -> TestOutcome:
    """Look for an entry in a list of the server."""
    kind, _, name = offered.partition(" ")
    answer = server.ask(_list_names, kind)
    if answer.kind == "result" and name in answer.result:
        return pass_()
    received = answer.summary()
    if answer.kind == "result":
        more = len(answer.result) - _NAMED
        names = ", ".join(sorted(answer.result)[:_NAMED]) or "nothing"
        received = f"{names} and {more} more" if more > 0 else names
    return fail(Failure(expected=f"the {kind} {name}", came=received, given=f"a list of {kind}s"))


def _list_names(client: blocking.Client, kind: str, **_: object) -> frozenset[str]:
    entries, member = _LISTS[kind]
    capability = "resources" if kind == "template" else entries
    if getattr(client.capabilities, capability) is None:
        return frozenset()
    return frozenset(str(getattr(each, member)) for each in getattr(client, entries)())


def _mismatches(expect: Expectation, answer: ServerAnswer) -> Iterator[tuple[str, str]]:
    if answer.kind in ("silence", "end", "breach"):
        yield "an answer", answer.summary()
        return
    is_error = answer.kind == "error" or getattr(answer.result, "is_error", False)
    text = answer.text if answer.kind == "error" else _text(answer.result)
    wants_error = expect.error is not False or expect.code is not None
    if is_error != bool(wants_error):
        yield ("an error" if wants_error else "no error"), answer.summary()
        return
    if expect.code is not None and answer.code != expect.code:
        yield f"error {expect.code}", answer.summary()
    if isinstance(expect.error, str) and expect.error not in text:
        yield f"an error that contains {expect.error!r}", answer.summary()
    yield from _text_mismatches(expect, text)
    if answer.kind == "result":
        yield from _structure_mismatches(
            expect, getattr(answer.result, "structured_content", msgspec.UNSET)
        )
    if expect.within is not None and answer.seconds > expect.within:
        yield f"an answer within {expect.within:g} s", f"one after {answer.seconds:.3f} s"


def _text_mismatches(expect: Expectation, text: str) -> Iterator[tuple[str, str]]:
    if expect.text is not None and text != expect.text:
        yield f"the text {format_json(expect.text)}", format_json(text)
    parts = [expect.contains] if isinstance(expect.contains, str) else expect.contains
    for part in parts:
        if part not in text:
            yield f"a text that contains {format_json(part)}", format_json(text)
    if expect.matches is not None and not re.search(expect.matches, text):
        yield f"a text that matches {expect.matches}", format_json(text)


def _structure_mismatches(expect: Expectation, received: object) -> Iterator[tuple[str, str]]:
    shown = "no structured content" if received is msgspec.UNSET else format_json(received)
    if expect.structured is not msgspec.UNSET and not _is_equal(expect.structured, received):
        yield f"the structured content {format_json(expect.structured)}", shown
    if expect.partly is not msgspec.UNSET:
        missing = _first_missing(expect.partly, received, "")
        if missing is not None:
            yield f"structured content with {missing}", shown


def _is_equal(wanted: object, received: object) -> bool:
    if isinstance(wanted, dict) and isinstance(received, dict):
        return wanted.keys() == received.keys() and all(
            _is_equal(wanted[key], received[key]) for key in wanted
        )
    if isinstance(wanted, list) and isinstance(received, list):
        return len(wanted) == len(received) and all(map(_is_equal, wanted, received))
    # In JSON 1 and 1.0 are the same number, and true is not a number.
    return isinstance(wanted, bool) == isinstance(received, bool) and bool(wanted == received)


def _first_missing(wanted: object, received: object, place: str) -> str | None:
    """Return the first member that is missing or different, as text."""
    if not isinstance(wanted, dict):
        is_there = received is not msgspec.UNSET and _is_equal(wanted, received)
        return None if is_there else f"{place or 'the value'} = {format_json(wanted)}"
    if not isinstance(received, dict):
        return f"an object as {place or 'the whole'}"
    for key, value in wanted.items():
        inner = _first_missing(
            value, received.get(key, msgspec.UNSET), f"{place}.{key}" if place else key
        )
        if inner is not None:
            return inner
    return None


def _text(result: object) -> str:
    if isinstance(result, ReadResourceResult):
        return "\n".join(each.text for each in result.contents if each.text is not None)
    blocks: list[object] = []
    if isinstance(result, CallToolResult):
        blocks = list(result.content)
    elif isinstance(result, GetPromptResult):
        blocks = [each.content for each in result.messages]
    return "\n".join(text for text in map(_block_text, blocks) if text is not None)


def _block_text(block: object) -> str | None:
    if isinstance(block, TextContent):
        return block.text
    return block.resource.text if isinstance(block, EmbeddedResource) else None
