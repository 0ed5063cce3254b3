"""The user's own test cases, in files of TOML or YAML: requests and expected answers."""

import importlib.util
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from shlex import join, quote
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from accord.client import blocking
from accord.errors import AccordError
from accord.protocol.revisions import HANDSHAKE
from accord.server import Server
from accord.types import JsonObject
from accord_tools.contract.data_files import parse_toml, parse_yaml
from accord_tools.contract.expectations import (
    Expectation,
    faults_of,
    find_difference,
    mismatches,
    parse_path,
    values_at,
    wire_form,
)
from accord_tools.contract.tested_server import (
    CallCommand,
    ContractRules,
    Failure,
    ServerAnswer,
    Test,
    TestedServer,
    TestOutcome,
    fail,
    format_json,
    pass_,
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
_VARIABLE: Final = re.compile(r"\$\{(\w+)\}")
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


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which parts of a result may differ from the one that was kept.

    Attributes:
        without: their paths, such as `structuredContent.items[*].time`.
    """

    without: list[str] = []


class CaseStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One request: `call` a tool, `read` a resource or get a `prompt`, and the expected answer.

    Attributes:
        save: variables for later steps: their names, and the paths of their values in the result.
        snapshot: whether the result must be the one that was kept, or what of it may differ.
    """

    call: str | None = None
    read: str | None = None
    prompt: str | None = None
    arguments: JsonObject = {}
    expect: Expectation = Expectation()
    save: dict[str, str] = {}
    snapshot: bool | Snapshot = False


class Case(CaseStep, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One case: a request, several `steps`, or an entry to find.

    `offers` names the entry with its kind, such as "tool add".
    """

    name: str
    offers: str | None = None
    steps: list[CaseStep] = []
    # The file, and the name of the case in it.
    origin: tuple[Path, str] | None = None

    @property
    def requests(self) -> Sequence[CaseStep]:
        """The steps; the case itself if it has none."""
        return self.steps or (self,)


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
        cases = [replace(each, origin=(self._path, each.name)) for each in cases]
        names = [each.name for each in cases]
        for number, name in enumerate(names):
            if name in names[:number]:
                raise CaseError(f"{self._place(number)}: there are two cases {name!r}")
        rest = {key: value for key, value in loaded.items() if key != "case"}
        file = self._convert(rest, CaseFile, str(self._path))
        return replace(file, case=cases)

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
        self._refuse_unknown_expectations(given, where)
        steps = given.get("steps")
        for step, each in enumerate(steps if isinstance(steps, list) else (), 1):
            if isinstance(each, dict):
                self._refuse_unknown(each, CaseStep, f"{where}: step {step}")
                self._refuse_unknown_expectations(each, f"{where}: step {step}")
        case = self._convert(given, Case, where)
        _refuse_verbs(case, (*_VERBS, "steps"), where)
        if case.save:
            raise CaseError(f"{where}: save belongs to a step; write [[case.steps]]")
        if case.offers is not None:
            _refuse_senseless_offer(case, where)
        elif not case.steps:
            _refuse_senseless(case, where)
        elif case.arguments or case.snapshot or case.expect != Expectation():
            raise CaseError(f"{where}: arguments, expect and snapshot belong to its steps")
        self._check_steps(case, where)
        return case

    def _refuse_unknown_expectations(self, given: JsonObject, where: str) -> None:
        expect, place = given.get("expect"), f"{where}: expect"
        while isinstance(expect, dict):
            self._refuse_unknown(expect, Expectation, place)
            expect, place = expect.get("not"), f"{place}.not"

    def _check_steps(self, case: Case, where: str) -> None:
        known: set[str] = set()
        for number, step in enumerate(case.steps, 1):
            place = f"{where}: step {number}"
            _refuse_verbs(step, _VERBS[:3], place)
            _refuse_senseless(step, place)
            for name in variables_in(msgspec.to_builtins(step)):
                if name not in known:
                    raise CaseError(f"{place}: no earlier step saves {name}")
            known |= {*step.save}

    def _refuse_unknown(self, given: JsonObject, kind: type[T], where: str) -> None:
        fields = msgspec.structs.fields(kind)
        known = [field.encode_name for field in fields if field.name != "origin"]
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


def _refuse_verbs(step: CaseStep, verbs: Sequence[str], where: str) -> None:
    asked = [verb for verb in verbs if getattr(step, verb)]
    if len(asked) != 1:
        said = "has both " + " and ".join(asked) if asked else "has nothing to ask"
        raise CaseError(f"{where} {said}; expected one of {', '.join(verbs)}")


def _refuse_senseless_offer(case: Case, where: str) -> None:
    kind, _, name = (case.offers or "").partition(" ")
    if kind not in _LISTS or not name:
        kinds = ", ".join(_LISTS)
        raise CaseError(f"{where}: offers is a kind and a name; the kinds are {kinds}")
    if case.arguments or case.snapshot or case.expect != Expectation():
        raise CaseError(f"{where}: a case with offers has neither arguments nor expect")


def _refuse_senseless(step: CaseStep, where: str) -> None:
    expect = step.expect
    if step.read and step.arguments:
        raise CaseError(f"{where}: a resource takes no arguments; write them into the URI")
    if not step.call and (expect.structured, expect.partly) != (msgspec.UNSET, msgspec.UNSET):
        raise CaseError(f"{where}: only a tool has a structured result")
    if step.prompt and not all(isinstance(each, str) for each in step.arguments.values()):
        raise CaseError(f"{where}: arguments of a prompt must be strings")
    for fault in faults_of(expect):
        raise CaseError(f"{where}: {fault}")
    for path in (*step.save.values(), *_snapshot_of(step).without):
        try:
            parse_path(path)
        except ValueError as error:
            raise CaseError(f"{where}: {error}") from None


def _snapshot_of(step: CaseStep) -> Snapshot:
    return step.snapshot if isinstance(step.snapshot, Snapshot) else Snapshot()


# -- variables of steps


def variables_in(value: object) -> Iterator[str]:
    """Yield the names of the variables, such as `${id}`, in a value."""
    if isinstance(value, str):
        yield from _VARIABLE.findall(value)
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from variables_in(each)


def _fill_in(value: Any, saved: JsonObject) -> Any:
    """Return a value with the variables in it replaced; a text that is one keeps its type."""
    if isinstance(value, dict):
        return {key: _fill_in(each, saved) for key, each in value.items()}
    if isinstance(value, list):
        return [_fill_in(each, saved) for each in value]
    if not isinstance(value, str):
        return value
    whole = _VARIABLE.fullmatch(value)
    if whole is not None:
        return saved[whole[1]]
    return _VARIABLE.sub(lambda found: _variable_text(saved[found[1]]), value)


def _variable_text(value: object) -> str:
    return value if isinstance(value, str) else format_json(value)


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
        saved: JsonObject = {}
        for number, each in enumerate(case.requests, 1):
            step = each
            if case.steps:
                step = msgspec.convert(_fill_in(msgspec.to_builtins(each), saved), CaseStep)
            answer, given, repeat = _send(step, server)
            wrong = _first_fault(case, number, step, answer, server)
            if wrong is None:
                wrong = _save(step, answer, saved)
            if wrong is not None:
                expected, came = wrong
                place = f"step {number}: " if case.steps else ""
                failure = Failure(
                    expected=expected, came=came, given=f"{place}{given}", repeat=repeat
                )
                return fail(failure, number)
        return pass_(len(case.requests))

    first = case.requests[0]
    subject = first.call or first.read or first.prompt or case.offers or ""
    return Test("case", subject, case.name, run)


def _first_fault(
    case: Case, number: int, step: CaseStep, answer: ServerAnswer, server: TestedServer
) -> tuple[str, str] | None:
    expect = step.expect
    # With a code or a text of the error, the case may be about an unknown tool.
    is_about_it = expect.code is not None or isinstance(expect.error, str)
    is_error = answer.kind == "error" or getattr(answer.result, "is_error", False)
    if step.call is not None and is_error and not is_about_it:
        names = server.tool_names()
        if names is not None and step.call not in names:
            return f"a listed tool {step.call}", f"{_first_names(names)}; {answer.summary()}"
    wrong = next(mismatches(expect, answer), None)
    if wrong is not None or not step.snapshot or case.origin is None or answer.kind != "result":
        return wrong
    without = [parse_path(path) for path in _snapshot_of(step).without]
    result, update = wire_form(answer.result), server.updates_snapshots
    return find_difference(case.origin, number, result, without, update=update)


def _save(step: CaseStep, answer: ServerAnswer, saved: JsonObject) -> tuple[str, str] | None:
    """Keep the variables of a step; return what was expected and came if one is missing."""
    for name, path in step.save.items():
        found = values_at(wire_form(answer.result), parse_path(path))
        if not found:
            return f"a value at {path}, to save as {name}", answer.summary()
        saved[name] = found[0]
    return None


def _send(case: CaseStep, server: TestedServer) -> tuple[ServerAnswer, str, str]:
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
        received = _first_names(answer.result)
    return fail(Failure(expected=f"the {kind} {name}", came=received, given=f"a list of {kind}s"))


def _first_names(found: Collection[str]) -> str:
    more = len(found) - _NAMED
    names = ", ".join(sorted(found)[:_NAMED]) or "nothing"
    return f"{names} and {more} more" if more > 0 else names


def _list_names(client: blocking.Client, kind: str, **_: object) -> frozenset[str]:
    entries, member = _LISTS[kind]
    capability = "resources" if kind == "template" else entries
    if getattr(client.capabilities, capability) is None:
        return frozenset()
    return frozenset(str(getattr(each, member)) for each in getattr(client, entries)())
