"""Arguments that the strict decode refused: read leniently, or refused with all that is wrong.

Hosts send numbers, booleans, objects and arrays as text: models write `"5"` where a number is
wanted. Text is read as another value only where the schema admits no text, so no argument changes
its meaning. Loaded for the first such call, and for prompts and resource templates, whose arguments
are text.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from accord.errors import lower_first
from accord.json_schema.mismatch import Mismatch, explain, path_text
from accord.json_schema.reader import admits, alternatives, merge_all_of, resolve, type_of
from accord.server.schema.conversion import convert, dec_hook
from accord.server.schema.plain import encode
from accord.server.schema.signature import ArgumentsError, BoundArguments
from accord.types import JsonObject

_LITERALS: Final[Mapping[str, bool]] = {"true": True, "false": False}
# Deeper than any arguments that a message may hold would need.
_DEEPEST: Final = 32


def read_texts(value: object, schema: JsonObject, root: JsonObject, depth: int = 0) -> object:
    """Return a value with the texts in it read as what the schema admits in their place.

    Args:
        value: plain JSON.
        schema: what it should fit.
        root: the schema that references are resolved in.
        depth: how deep in the arguments it is.
    """
    if depth > _DEEPEST:
        return value
    schema = merge_all_of(resolve(schema, root), root)
    if isinstance(value, str) and not admits(schema, ("string",), root):
        value = _read_text(value, schema, root)
    if not isinstance(value, dict | list):
        return value
    # Of several alternatives, the one for values of this type; between two there is no telling.
    fitting = [each for each in alternatives(schema, root) if admits(each, (type_of(value),), root)]
    if len(fitting) == 1:
        schema = fitting[0]
    if isinstance(value, list):
        items = schema.get("items")
        if not isinstance(items, dict):
            return value
        return [read_texts(each, items, root, depth + 1) for each in value]
    members, rest = schema.get("properties"), schema.get("additionalProperties")
    known = members if isinstance(members, dict) else {}
    other = rest if isinstance(rest, dict) else {}
    return {
        name: read_texts(each, known.get(name, other), root, depth + 1)
        for name, each in value.items()
    }


def _read_text(text: str, schema: JsonObject, root: JsonObject) -> object:
    stripped = text.strip()
    if stripped.lower() in _LITERALS and admits(schema, ("boolean",), root):
        return _LITERALS[stripped.lower()]
    parsed = parse_json(stripped)
    if parsed is UNSET or isinstance(parsed, str | bool):
        return text
    types: tuple[str, ...] = ("null",)
    if isinstance(parsed, int | float):
        types = ("number", "integer")
    elif parsed is not None:
        types = ("object", "array")  # a named tuple is listed as an object, and may be an array
    return parsed if admits(schema, types, root) else text


def parse_json(text: str) -> object:
    """Return the value of a string of JSON; UNSET if it is not JSON."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return UNSET


def floats_to_integers(value: object) -> object:
    """Turn floats such as 2.0 into integers: in JSON both are the same number."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [floats_to_integers(each) for each in value]
    if isinstance(value, dict):
        return {key: floats_to_integers(each) for key, each in value.items()}
    return value


_LONGEST_ERROR: Final = 300
_WORDS: Final = {"yes": True, "on": True, "no": False, "off": False}


class ArgumentsReader:
    """Reads the arguments of one function leniently.

    Args:
        types: those of the parameters, by their names in JSON.
        schema: that of the arguments.
        is_strict: whether text is never read as another value.
        forbids_unknown: whether arguments that the function does not have are refused.
    """

    def __init__(
        self,
        types: Mapping[str, object],
        schema: JsonObject,
        *,
        is_strict: bool,
        forbids_unknown: bool,
    ) -> None:
        self._types = types
        self._schema = schema
        self._is_strict = is_strict
        self._forbids_unknown = forbids_unknown

    def read(
        self,
        raw: bytes | msgspec.Raw,
        decode: Callable[[bytes], BoundArguments],
        *,
        takes_nothing: bool,
    ) -> BoundArguments:
        """Decode an object of arguments; see `Signature.bind`.

        Args:
            raw: the arguments.
            decode: decodes them once they are repaired.
            takes_nothing: whether the function has no parameters.

        Raises:
            ArgumentsError: they do not fit.
        """
        given = decode_object(raw)
        if takes_nothing and given:
            names = ", ".join(f'"{name}"' for name in given)
            raise ArgumentsError(shorten(f"unknown arguments {names}; the tool takes no arguments"))
        readings = {name: self._repair(name, value) for name, value in given.items()}
        self._refuse(given, [name for name, reading in readings.items() if reading is UNSET])
        try:
            return decode(encode(readings))
        except msgspec.ValidationError as error:
            raise ArgumentsError(shorten(f"the arguments do not fit: {error}")) from None

    def read_strings(
        self, values: Mapping[str, str], struct: type[BoundArguments]
    ) -> BoundArguments:
        """Decode arguments that are all strings; see `Signature.bind_strings`.

        Raises:
            ArgumentsError: they do not fit.
        """
        given = {
            name: value
            for name, value in values.items()
            if name in self._types and not self._is_blank(name, value)
        }
        try:
            return convert(given, struct, strict=False)  # type: ignore[no-any-return]
        except msgspec.ValidationError:
            readings = {name: self._read_string(name, value) for name, value in given.items()}
        self._refuse(given, [name for name, reading in readings.items() if reading is UNSET])
        return convert(readings, struct, strict=False)  # type: ignore[no-any-return]

    def _repair(self, name: str, value: object) -> object:
        """Return an argument in a form that fits its parameter; UNSET if none fits."""
        type_ = self._types.get(name)
        if type_ is None:
            return value
        candidates = [value, floats_to_integers(value)]
        if not self._is_strict:
            read = read_texts(value, self._schema["properties"][name], self._schema)
            candidates += [read, floats_to_integers(read)]
        for candidate in candidates:
            if self._mismatch(name, candidate) is None:
                return candidate
        return UNSET

    def _read_string(self, name: str, value: object) -> object:
        type_ = self._types.get(name)
        if type_ is None or not isinstance(value, str):
            return value
        stripped = value.strip()
        candidates = [value, stripped, _WORDS.get(stripped.lower(), UNSET), parse_json(value)]
        for candidate in candidates:
            try:
                convert(candidate, type_, strict=False)
            except (msgspec.ValidationError, TypeError):
                continue
            return candidate
        return UNSET

    def _is_blank(self, name: str, value: object) -> bool:
        if value or name not in self._types:
            return False
        return name not in self._schema.get("required", ()) and not self._admits(name, "string")

    def _is_structured(self, name: str) -> bool:
        """Tell whether a parameter takes objects or arrays, and no strings."""
        return not self._admits(name, "string") and self._admits(name, "object", "array")

    def _admits(self, name: str, *types: str) -> bool:
        schema = self._schema["properties"][name]
        return admits(schema, types, self._schema)

    def _mismatch(self, name: str, value: object) -> Mismatch | None:
        try:
            msgspec.json.decode(encode(value), type=self._types[name], dec_hook=dec_hook)
        except msgspec.ValidationError as error:
            return _mismatch_of(error)
        return None

    def _refuse(self, given: Mapping[str, object], wrong: list[str]) -> None:
        """Raise one error that names all missing, unknown and wrong arguments, if there are any."""
        required: list[str] = self._schema.get("required", [])
        unknown = [name for name in given if name not in self._types]
        problems = []
        for name in [name for name in required if name not in given]:
            meant = _close(name, unknown)
            hint = ""
            if meant is not None:
                hint = f' (did you mean it by "{meant}"?)'
                unknown.remove(meant)
            problems.append(f'argument "{name}" is missing{hint}')
        if self._forbids_unknown:
            problems += [self._unknown(name, given) for name in unknown]
        problems += [self._problem(name, given[name]) for name in wrong]
        if problems:
            raise ArgumentsError(shorten("; ".join(problems)))

    def _unknown(self, name: str, given: Mapping[str, object]) -> str:
        free = [other for other in self._types if other not in given]
        meant = _close(name, free)
        hint = f'did you mean "{meant}"?' if meant else f"the tool takes {', '.join(self._types)}"
        return f'unknown argument "{name}" ({hint})'

    def _problem(self, name: str, value: object) -> str:
        schema = self._schema["properties"][name]
        if isinstance(value, str) and not self._is_strict and self._is_structured(name):
            parsed = parse_json(value)
            # The mistake is within the object or array in the text.
            value = parsed if isinstance(parsed, dict | list) else value
        seen = explain(schema, value, self._schema)
        raised = self._mismatch(name, value)
        # Other libraries have rules that a schema does not show; the path they name is right.
        has_path = raised is not None and raised.path
        agrees = seen is not None and raised is not None and seen.path == raised.path
        found = (raised if has_path and not agrees else seen or raised) or Mismatch("is wrong")
        reason = found.reason if found.reason.startswith("is ") else f": {found.reason}"
        separator = " " if found.reason.startswith("is ") else ""
        return f'argument "{path_text((name, *found.path))}"{separator}{reason}'


def decode_object(raw: bytes | msgspec.Raw | UnsetType | None) -> JsonObject:
    """Return arguments as plain JSON data; empty text and null are an empty object.

    Raises:
        ArgumentsError: they are not an object.
    """
    if raw is UNSET or raw is None or not bytes(raw).strip():
        return {}
    try:
        given = msgspec.json.decode(raw)
    except (msgspec.MsgspecError, ValueError) as error:
        raise ArgumentsError(f"the arguments are not JSON: {error}") from None
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise ArgumentsError("the arguments have to be an object with a member for each argument")
    return given


# Wording


def _mismatch_of(error: msgspec.ValidationError) -> Mismatch:
    cause = error.__cause__
    if isinstance(cause, Mismatch):
        return Mismatch(cause.reason, path=(*_location(error), *cause.path) if cause.path else ())
    text, _, place = str(error.__cause__ or error).partition(" - at ")
    words = lower_first(text.replace("`", ""))
    # Schemas do not describe keys.
    return Mismatch(f"a key: {words}" if place.startswith("`key`") else words)


def _location(error: msgspec.ValidationError) -> Iterator[str | int]:
    """Parse the path that msgspec writes as in `$.tags[2]`."""
    _, found, path = str(error).rpartition(" - at `$")
    # Without a path, the text may still have brackets: those of a pattern, for example.
    path = path.rstrip("`") if found else ""
    for name, index in re.findall(r"\.([^.\[]+)|\[([^\]]*)\]", path):
        yield name or (int(index) if index.isdigit() else index)


def _close(name: str, others: list[str]) -> str | None:
    from difflib import get_close_matches

    by_folded = {other.replace("_", "").replace("-", "").lower(): other for other in others}
    folded = name.replace("_", "").lower()
    match = get_close_matches(folded, by_folded, n=1, cutoff=0.6)
    return by_folded[match[0]] if match else None


def shorten(text: str) -> str:
    """Return a message on one line, cut to a length that a model can use."""
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST_ERROR else text[: _LONGEST_ERROR - 3] + "..."
