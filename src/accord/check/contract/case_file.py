"""The user's own cases: a TOML or YAML file that says what is asked and what shall come."""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from accord.errors import AccordError

_VERBS: Final = ("call", "read", "prompt")
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
    """A mistake in a file of cases; the message names the place."""


class Expectation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What shall come; all that is given has to hold.

    Attributes:
        text: the text of all content, line by line.
        contains: a part of the text, or several.
        matches: a regular expression, found anywhere in the text.
        structured: the structured result, as a whole.
        partly: what the structured result has at least, at any depth.
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
    """One case: `call` a tool, `read` a resource or get a `prompt`."""

    name: str
    call: str | None = None
    read: str | None = None
    prompt: str | None = None
    arguments: dict[str, Any] = {}
    expect: Expectation = Expectation()


class CaseFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of cases.

    Attributes:
        target: the server; a file is looked for beside this one.
        command: what launches it, in place of a target.
        transport: "stdio", "memory", "http" or "sse".
        revision: the revision to speak.
        timeout: seconds to wait for each answer.
        contract: whether contract tests are made from what the server declares.
        tools: those that contract tests call whatever they do, and no others.
        allow_writes: whether they call tools that change something.
        examples: generated arguments for each tool.
        seed: the same seed gives the same arguments.
        calls: how many calls each tool gets at most.
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
        CaseError: it cannot be read, has a mistake, or is YAML and PyYAML is not installed.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "not UTF-8"
        raise CaseError(f"{path}: {why}") from None
    is_yaml = path.suffix in (".yaml", ".yml")
    loaded = _yaml(path, text) if is_yaml else _toml(path, text)
    return _Reader(path, text, is_yaml=is_yaml).file(loaded)


def _toml(path: Path, text: str) -> Any:
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        where = re.search(r"line (\d+)", str(error))
        said = re.sub(r" \(at .*\)$", "", str(error))
        place = f":{where[1]}" if where else ""
        raise CaseError(f"{path}{place}: {said[:1].lower()}{said[1:]}") from None


def _yaml(path: Path, text: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise CaseError(f"{path}: YAML needs PyYAML: pip install pyyaml; or write TOML") from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f":{mark.line + 1}" if mark is not None else ""
        raise CaseError(f"{path}{place}: {getattr(error, 'problem', None) or error}") from None


class _Reader:
    """Turns what was loaded into cases; knows in which line each one begins."""

    def __init__(self, path: Path, text: str, *, is_yaml: bool) -> None:
        self._path = path
        begin = r"^\s*-\s" if is_yaml else r"^\s*\[\[\s*case\s*\]\]"
        self._lines = [
            number for number, line in enumerate(text.splitlines(), 1) if re.match(begin, line)
        ]

    def file(self, loaded: Any) -> CaseFile:
        if not isinstance(loaded, dict):
            raise CaseError(f"{self._path}: holds no cases; expected [[case]] tables")
        self._refuse_unknown(loaded, CaseFile, str(self._path))
        listed = loaded.get("case", [])
        if not isinstance(listed, list):
            raise CaseError(f"{self._path}: case is no list; write [[case]] with two brackets")
        cases = [self._case(number, each) for number, each in enumerate(listed)]
        names = [each.name for each in cases]
        for number, name in enumerate(names):
            if name in names[:number]:
                raise CaseError(f"{self._place(number)}: there are two cases {name!r}")
        rest = {key: value for key, value in loaded.items() if key != "case"}
        file: CaseFile = self._converted(rest, CaseFile, str(self._path))
        return msgspec.structs.replace(file, case=cases)

    def _place(self, number: int) -> str:
        line = f":{self._lines[number]}" if number < len(self._lines) else ""
        return f"{self._path}{line}"

    def _case(self, number: int, given: Any) -> Case:
        place = self._place(number)
        if not isinstance(given, dict):
            raise CaseError(f"{place}: case {number + 1} is no table")
        name = given.get("name")
        is_named = isinstance(name, str) and name.strip() != ""
        where = f"{place}: case {repr(name) if is_named else number + 1}"
        self._refuse_unknown(given, Case, where)
        if not is_named:
            raise CaseError(f"{where} has no name")
        expect = given.get("expect", {})
        if isinstance(expect, dict):
            self._refuse_unknown(expect, Expectation, f"{where}: expect")
        case: Case = self._converted(given, Case, where)
        asked = [verb for verb in _VERBS if getattr(case, verb) is not None]
        if len(asked) != 1:
            said = "has both " + " and ".join(asked) if asked else "has nothing to ask"
            raise CaseError(f"{where} {said}; expected one of {', '.join(_VERBS)}")
        _refuse_senseless(case, asked[0], where)
        return case

    def _refuse_unknown(self, given: Mapping[str, Any], kind: Any, where: str) -> None:
        known = [field.name for field in msgspec.structs.fields(kind)]
        for key in given:
            if key not in known:
                close = get_close_matches(str(key), known, n=1, cutoff=0.6)
                hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(known)}"
                raise CaseError(f"{where} has no key {key}; {hint}")

    def _converted(self, given: Mapping[str, Any], kind: Any, where: str) -> Any:
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
    if verb == "read" and case.arguments:
        raise CaseError(f"{where}: a resource takes no arguments; write them into the URI")
    if verb != "call" and (expect.structured, expect.partly) != (msgspec.UNSET, msgspec.UNSET):
        raise CaseError(f"{where}: only a tool has a structured result")
    if verb == "prompt" and not all(isinstance(each, str) for each in case.arguments.values()):
        raise CaseError(f"{where}: arguments of a prompt are texts")
    if expect.matches is not None:
        try:
            re.compile(expect.matches)
        except re.error as error:
            raise CaseError(f"{where}: matches is no regular expression: {error}") from None
