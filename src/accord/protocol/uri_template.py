"""URI templates of RFC 6570, all four levels: parse, expand, and match a URI against one.

Matching is the reverse of expansion for texts and lists of them. It takes the longest value for the
leftmost variable, in time linear in the length of the URI; a variable that stands in a template
twice must have one value.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

Value: TypeAlias = str | Sequence[str] | Mapping[str, str]

_UNRESERVED: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_RESERVED: Final = frozenset(":/?#[]@!$&'()*+,;=")
_FOR_EXTENSIONS: Final = frozenset("=,!@|")
_NEVER_LITERAL: Final = frozenset('"<>\\^`{|} ') | {chr(code) for code in (*range(32), 127)}
_MAX_PREFIX_DIGITS: Final = 4
# Each repetition is looked at from every place where one may begin.
_MOST_REPETITIONS: Final = 32

_PERCENT: Final = r"%[0-9A-Fa-f]{2}"
_NAME: Final = re.compile(rf"(?:\w|{_PERCENT})+(?:\.(?:\w|{_PERCENT})+)*", re.ASCII)
_RUNS: Final = re.compile(rf"(?:{_PERCENT})+|.", re.DOTALL)
_PASSED: Final = re.compile(rf"{_PERCENT}|.", re.DOTALL)

_Atom: TypeAlias = tuple[str, str]
_Ends: TypeAlias = list[int | None]


class _Operator(msgspec.Struct, frozen=True):
    """One column of the table in appendix A of the RFC; no matched value holds one of `ends`."""

    first: str = ""
    separator: str = ","
    named: bool = False
    if_empty: str = ""
    keeps_reserved: bool = False
    ends: frozenset[str] = frozenset("/?#")


_OPERATORS: Final[dict[str, _Operator]] = {
    "": _Operator(),
    "+": _Operator(keeps_reserved=True, ends=frozenset()),
    "#": _Operator(first="#", keeps_reserved=True, ends=frozenset()),
    ".": _Operator(first=".", separator="."),
    "/": _Operator(first="/", separator="/"),
    ";": _Operator(first=";", separator=";", named=True, ends=frozenset("/?#;")),
    "?": _Operator(first="?", separator="&", named=True, if_empty="=", ends=frozenset("&#")),
    "&": _Operator(first="&", separator="&", named=True, if_empty="=", ends=frozenset("&#")),
}


class _Variable(msgspec.Struct, frozen=True):
    name: str
    longest: int | None = None
    exploded: bool = False


class _Expression(msgspec.Struct, frozen=True):
    operator: _Operator
    variables: tuple[_Variable, ...]


class Several(str):
    """A value that is a list as well: the text as it stands there, decoded, and its `parts`."""

    __slots__ = ("parts",)
    parts: tuple[str, ...]

    @classmethod
    def of(cls, text: str, parts: Sequence[str]) -> str:
        """Return plain text unless there are several parts."""
        if len(parts) < 2:
            return text
        made = cls(text)
        made.parts = tuple(parts)
        return made


# -- what a template consists of when it is matched


class _Text(msgspec.Struct, frozen=True):
    """Text that stands in the URI as it is."""

    raw: tuple[str, ...]

    def reach(self, atoms: list[_Atom], matches: list[bool]) -> _Ends:
        width = len(self.raw)
        return [
            start + width
            if start + width < len(matches)
            and matches[start + width]
            and all(atoms[start + at][0] == raw for at, raw in enumerate(self.raw))
            else None
            for start in range(len(matches))
        ]

    def read(self, atoms: list[_Atom], start: int, end: int) -> Iterator[tuple[_Variable, str]]:
        return iter(())


class _Slot(msgspec.Struct, frozen=True):
    """The value of one variable, by its position alone."""

    variable: _Variable
    ends: frozenset[str]
    shortest: int
    separator: str

    def reach(self, atoms: list[_Atom], matches: list[bool]) -> _Ends:
        last_match: list[int] = []
        last = -1
        for at, good in enumerate(matches):
            last = at if good else last
            last_match.append(last)
        reached: _Ends = [None] * len(matches)
        run_end = len(atoms)
        for start in range(len(atoms), -1, -1):
            if start < len(atoms) and atoms[start][0] in self.ends:
                run_end = start
            longest = self.variable.longest
            limit = run_end if longest is None else min(run_end, start + longest)
            if last_match[limit] >= start + self.shortest:
                reached[start] = last_match[limit]
        return reached

    def read(self, atoms: list[_Atom], start: int, end: int) -> Iterator[tuple[_Variable, str]]:
        yield self.variable, _value(atoms[start:end], self.separator)


def _value(atoms: list[_Atom], separator: str) -> str:
    parts = [""]
    for raw, text in atoms:
        if raw == separator:
            parts.append("")
        else:
            parts[-1] += text
    return Several.of("".join(text for _, text in atoms), parts)


class _Pairs(msgspec.Struct, frozen=True):
    """Values with their names, in any order; none needs to be there, exploded ones may repeat."""

    operator: _Operator
    variables: Mapping[str, _Variable]

    def reach(self, atoms: list[_Atom], matches: list[bool]) -> _Ends:
        ends = _next(atoms, self.operator.ends)
        equals = _next(atoms, frozenset("="))
        reached: _Ends = []
        for start, good in enumerate(matches):
            farthest = start if good else None
            for _, _, end in self._walk(atoms, start, ends, equals):
                if matches[end]:
                    farthest = end
            reached.append(farthest)
        return reached

    def read(self, atoms: list[_Atom], start: int, end: int) -> Iterator[tuple[_Variable, str]]:
        ends = _next(atoms, self.operator.ends)
        equals = _next(atoms, frozenset("="))
        exploded: dict[_Variable, list[str]] = {}
        for variable, value_at, pair_end in self._walk(atoms, start, ends, equals):
            if pair_end <= end:
                value = _value(atoms[value_at:pair_end], "" if variable.exploded else ",")
                if not variable.exploded:
                    yield variable, value
                else:
                    exploded.setdefault(variable, []).append(value)
        for variable, values in exploded.items():
            yield variable, Several.of(",".join(values), values)

    def _walk(
        self, atoms: list[_Atom], start: int, ends: list[int], equals: list[int]
    ) -> Iterator[tuple[_Variable, int, int]]:
        """Yield each pair that begins here as its variable, where its value begins, and its end.

        No text is looked at twice from the same start, however long the values are.
        """
        left = {
            name: _MOST_REPETITIONS if variable.exploded else 1
            for name, variable in self.variables.items()
        }
        longest_name = max(map(len, left), default=0)
        at, lead = start, self.operator.first
        while at < len(atoms) and atoms[at][0] == lead:
            end = ends[at + 1]
            middle = min(equals[at + 1], end)
            if middle - at - 1 > longest_name:
                return
            name = "".join(raw for raw, _ in atoms[at + 1 : middle])
            if not left.get(name):
                return
            left[name] -= 1
            variable = self.variables[name]
            value_at = min(middle + 1, end)
            size = end - value_at
            if (variable.longest or size) < size:
                return
            yield variable, value_at, end
            at, lead = end, self.operator.separator


def _next(atoms: list[_Atom], wanted: frozenset[str]) -> list[int]:
    """For each place, the next one at or after it where a wanted character stands, or the end."""
    found = [len(atoms)] * (len(atoms) + 1)
    for at in range(len(atoms) - 1, -1, -1):
        found[at] = at if atoms[at][0] in wanted else found[at + 1]
    return found


_Part: TypeAlias = _Text | _Slot | _Pairs


class UriTemplate(msgspec.Struct, frozen=True):
    """A parsed template; make one with `parse`."""

    text: str
    variables: tuple[str, ...]
    _parts: tuple[str | _Expression, ...]
    _matched: tuple[_Part, ...]

    def expand(self, variables: Mapping[str, Value]) -> str:
        """Return the URI for these values; variables without one are left out.

        Raises:
            ValueError: a variable with a maximum length was given several values.
        """
        return "".join(
            part if isinstance(part, str) else _expand(part, variables) for part in self._parts
        )

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the decoded values with which this template makes the URI; None if none do.

        A simple variable has at least one character and never spans a `/`; `{+name}` and `{/name*}`
        may span several. Named variables (`;`, `?`, `&`) may be absent and in any order. What can
        be read as a list is `Several`.
        """
        atoms = _atoms(uri)
        if atoms is None:
            return None
        matches = [False] * len(atoms) + [True]
        reached: list[_Ends] = []
        for part in reversed(self._matched):
            reached.append(part.reach(atoms, matches))
            matches = [end is not None for end in reached[-1]]
        found: dict[str, tuple[str, bool]] = {}
        at = 0
        for part, ends in zip(self._matched, reversed(reached), strict=True):
            end = ends[at]
            if end is None:
                return None
            for variable, text in part.read(atoms, at, end):
                if not _agree(found, variable, text):
                    return None
            at = end
        if at != len(atoms):
            return None
        return {name: text for name, (text, _) in found.items()}

    @property
    def slash_variables(self) -> frozenset[str]:
        """The variables that may hold slashes as they stand: `{+name}`, `{/name*}`, `{?name}`."""
        return frozenset(
            variable.name
            for part in self._parts
            if isinstance(part, _Expression)
            for variable in part.variables
            if "/" not in _ends(part, variable)
        )

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"UriTemplate({self.text!r})"


def parse(text: str) -> UriTemplate:
    """Read a template.

    Raises:
        ValueError: the text is not a template; the message says where and why.
    """
    parts: list[str | _Expression] = []
    at = 0
    while at < len(text):
        start = text.find("{", at)
        literal = text[at:] if start < 0 else text[at:start]
        if literal:
            parts.append(_read_literal(literal, at))
        if start < 0:
            break
        end = text.find("}", start)
        if end < 0:
            raise ValueError(f"position {start}: this brace is never closed")
        parts.append(_read_expression(text[start + 1 : end], start + 1))
        at = end + 1
    names = dict.fromkeys(
        variable.name
        for part in parts
        if isinstance(part, _Expression)
        for variable in part.variables
    )
    return UriTemplate(text, tuple(names), tuple(parts), tuple(_match_parts(parts)))


def _read_literal(text: str, offset: int) -> str:
    for piece in _PASSED.finditer(text):
        if piece.group() in _NEVER_LITERAL or "\ud800" <= piece.group() <= "\udfff":
            raise ValueError(f"position {offset + piece.start()}: {piece.group()!r} is not allowed")
        if piece.group() == "%":
            raise ValueError(f"position {offset + piece.start()}: '%' without two hex digits")
    return _encode(text, keeps_reserved=True)


def _read_expression(text: str, offset: int) -> _Expression:
    sign = text[:1]
    if sign in _FOR_EXTENSIONS:
        raise ValueError(f"position {offset}: operator {sign!r} is reserved for extensions")
    operator = _OPERATORS.get(sign)
    if operator is None:
        sign, operator = "", _OPERATORS[""]
    variables: list[_Variable] = []
    at = offset + len(sign)
    for item in text[len(sign) :].split(","):
        variables.append(_read_variable(item, at))
        at += len(item) + 1
    return _Expression(operator, tuple(variables))


def _read_variable(text: str, offset: int) -> _Variable:
    name = _NAME.match(text)
    if name is None:
        raise ValueError(f"position {offset}: expected the name of a variable")
    rest = text[name.end() :]
    if not rest:
        return _Variable(name.group())
    if rest == "*":
        return _Variable(name.group(), exploded=True)
    at = offset + name.end()
    digits = rest[1:]
    if rest[0] != ":":
        raise ValueError(f"position {at}: {rest[0]!r} cannot stand in the name of a variable")
    is_number = digits.isascii() and digits.isdigit() and digits[0] != "0"
    if not is_number or len(digits) > _MAX_PREFIX_DIGITS:
        raise ValueError(f"position {at + 1}: a maximum length is a number from 1 to 9999")
    return _Variable(name.group(), longest=int(digits))


def _match_parts(parts: Sequence[str | _Expression]) -> Iterator[_Part]:
    for part in parts:
        if isinstance(part, str):
            yield _text(part)
            continue
        operator = part.operator
        if operator.named:
            yield _Pairs(operator, {variable.name: variable for variable in part.variables})
            continue
        lead = operator.first
        for variable in part.variables:
            if lead:
                yield _text(lead)
            yield _slot(part, variable)
            lead = operator.separator


def _text(text: str) -> _Text:
    return _Text(tuple(raw for raw, _ in _atoms(text) or ()))


def _slot(expression: _Expression, variable: _Variable) -> _Slot:
    operator = expression.operator
    ends = _ends(expression, variable)
    if operator.separator == "," and len(expression.variables) > 1:
        ends |= {","}
    separator = operator.separator if variable.exploded else ","
    return _Slot(variable, ends, shortest=0 if operator.first else 1, separator=separator)


def _ends(expression: _Expression, variable: _Variable) -> frozenset[str]:
    """Return what no value of a variable holds as it stands in a URI."""
    operator = expression.operator
    spans = operator.separator == "/" and variable.exploded
    return operator.ends - {"/"} if spans else operator.ends


def _agree(found: dict[str, tuple[str, bool]], variable: _Variable, text: str) -> bool:
    """Note a value; false where the same variable already has one that does not fit."""
    is_whole = variable.longest is None
    known, known_whole = found.get(variable.name, ("", False))
    if is_whole and known_whole:
        return known == text
    shorter, longer = sorted((known, text), key=len)
    found[variable.name] = (longer, is_whole or known_whole)
    return longer.startswith(shorter)


def _expand(expression: _Expression, values: Mapping[str, Value]) -> str:
    operator = expression.operator
    made: list[str] = []
    for variable in expression.variables:
        value = values.get(variable.name)
        if value is None or (not isinstance(value, str) and not value):
            continue
        made.append(_expand_variable(operator, variable, value))
    return operator.first + operator.separator.join(made) if made else ""


def _expand_variable(operator: _Operator, variable: _Variable, value: Value) -> str:
    keeps = operator.keeps_reserved
    name = variable.name
    if isinstance(value, str):
        text = _encode(value[: variable.longest], keeps_reserved=keeps)
        return _name_value(operator, name, text)
    if variable.longest is not None:
        raise ValueError(f"variable {name!r} has a maximum length and takes one text only")
    if isinstance(value, Mapping):
        pairs = [
            (_encode(key, keeps_reserved=keeps), _encode(text, keeps_reserved=keeps))
            for key, text in value.items()
        ]
        if variable.exploded:
            return operator.separator.join(
                _name_value(operator, key, text) if operator.named else f"{key}={text}"
                for key, text in pairs
            )
        joined = ",".join(f"{key},{text}" for key, text in pairs)
    else:
        texts = [_encode(text, keeps_reserved=keeps) for text in value]
        if variable.exploded:
            return operator.separator.join(_name_value(operator, name, text) for text in texts)
        joined = ",".join(texts)
    return _name_value(operator, name, joined)


def _name_value(operator: _Operator, name: str, text: str) -> str:
    if not operator.named:
        return text
    return f"{name}={text}" if text else name + operator.if_empty


def _encode(text: str, *, keeps_reserved: bool) -> str:
    if not keeps_reserved:
        return "".join(char if char in _UNRESERVED else _percent(char) for char in text)
    return "".join(
        piece if len(piece) > 1 or piece in _UNRESERVED or piece in _RESERVED else _percent(piece)
        for piece in _PASSED.findall(text)
    )


def _percent(char: str) -> str:
    return "".join(f"%{octet:02X}" for octet in char.encode())


def _atoms(uri: str) -> list[_Atom] | None:
    """Split a URI into characters, each as written (normal form) and decoded; None if not UTF-8."""
    atoms: list[_Atom] = []
    try:
        for run in _RUNS.findall(uri):
            encoded = len(run) > 1
            for char in bytes.fromhex(run.replace("%", "")).decode() if encoded else run:
                plain = char in _UNRESERVED or (not encoded and char.isascii())
                atoms.append((char if plain else _percent(char), char))
    except UnicodeError:
        return None
    return atoms
