"""Placeholders for values, from `${env:NAME}` to the form of a host and back."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from accord.hosts.definition import Host, HostsError, PlaceholderForms
from accord.hosts.entries.literals import variable_name

PLACEHOLDER: Final = re.compile(r"\$\{(env|input):([^${}:]+)(?::-([^${}]*))?\}")
"""A value to fill in, as entries have it here: kind, name and default."""


class NoPlaceholder(HostsError):
    """A host cannot fill in a variable at some place; `variable` is its name."""

    def __init__(self, host: str, variable: str, place: str) -> None:
        super().__init__(
            f"{host} does not fill in the variable {variable} in {place}: keep the value in a "
            "file for the environment, or write it into the entry yourself"
        )
        self.host = host
        self.variable = variable
        self.place = place


class PlaceholderWriter:
    """Writes texts in the form of one host, and notes what they ask for.

    Attributes:
        inputs: the ids of values that the host asks for, in their order.
        variables: those that are filled in from the environment.
        remarks: what the host cannot express.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._forms = host.placeholders
        self.inputs: list[str] = []
        self.variables: list[str] = []
        self.remarks: list[str] = []

    def write(self, text: str, field: str, place: str) -> str:
        """Return a text with the placeholders of the host.

        Args:
            text: with `${env:NAME}` and `${input:NAME}`.
            field: `command`, `env`, `url` or `headers`.
            place: of the text, for people.

        Raises:
            NoPlaceholder: the host fills in nothing there.
            HostsError: it would fill in, or run, a text that is meant literally.
        """
        written = []
        last = 0
        for found in PLACEHOLDER.finditer(text):
            written.append(self._literal(text[last : found.start()], field, place))
            written.append(self._form(found, field, place))
            last = found.end()
        return "".join([*written, self._literal(text[last:], field, place)])

    def _literal(self, text: str, field: str, place: str) -> str:
        expression = _filled_in(self._forms)
        if field in self._forms.fields and expression and expression.search(text):
            raise HostsError(
                f"{self._host.name} would fill in or run a part of {place} that is meant as it "
                "stands: put the value into a variable, and name that as ${env:NAME}"
            )
        return text

    def _form(self, found: re.Match[str], field: str, place: str) -> str:
        kind, name, default = found[1], found[2], found[3]
        forms = self._forms
        variable = name if kind == "env" else variable_name(name)
        if field not in forms.fields:
            raise NoPlaceholder(self._host.name, variable, place)
        if forms.input and (kind == "input" or not forms.env):
            _add(self.inputs, name)
            return forms.input.replace("NAME", name)
        if not forms.env:
            raise NoPlaceholder(self._host.name, variable, place)
        if kind == "input":
            _add(self.remarks, f"{self._host.name} asks for nothing: set the variable {variable}")
        _add(self.variables, variable)
        if default is not None and forms.default:
            return forms.default.replace("NAME", variable).replace("DEFAULT", default)
        if default is not None:
            _add(self.remarks, f"{self._host.name} knows no defaults: set the variable {variable}")
        return forms.env.replace("NAME", variable)


def _add(listed: list[str], each: str) -> None:
    if each not in listed:
        listed.append(each)


def single_variable(text: str, before: str = "") -> str | None:
    """Return the variable that a text consists of; None if it has anything else in it.

    Args:
        text: as `${env:NAME}`.
        before: a regular expression of what may stand before it.
    """
    found = re.fullmatch(rf"(?:{before})\$\{{env:([A-Za-z_]\w*)\}}", text)
    return found[1] if found else None


def read_placeholders(text: str, field: str, host: Host) -> str:
    """Return a text of a host with `${env:NAME}` where the host fills in a variable."""
    forms = host.placeholders
    if field not in forms.fields:
        return text
    patterns = [each for each in (forms.default, forms.env, *forms.also) if each]
    if not patterns:
        return text
    expression = _any_form(tuple(patterns))

    def convert(found: re.Match[str]) -> str:
        groups = {key: each for key, each in found.groupdict().items() if each is not None}
        name = next(each for key, each in groups.items() if key.startswith("name"))
        default = next((each for key, each in groups.items() if key.startswith("default")), None)
        return f"${{env:{name}}}" if default is None else f"${{env:{name}:-{default}}}"

    return expression.sub(convert, text)


def map_text(value: Any, convert: Callable[[str], str]) -> Any:
    """Return a value with its text, or the texts in it, converted."""
    if isinstance(value, str):
        return convert(value)
    if isinstance(value, list):
        return [map_text(each, convert) for each in value]
    if isinstance(value, dict):
        return {key: map_text(each, convert) for key, each in value.items()}
    return value


def _expression(form: str, number: int) -> str:
    """Return a regular expression of a form, with groups for the name and the default."""
    text = re.sub(r"(?:\\ )+", r"\\s*", re.escape(form))
    text = text.replace("NAME", rf"(?P<name{number}>[A-Za-z_]\w*)", 1)
    return text.replace("DEFAULT", rf"(?P<default{number}>[^${{}}]*)", 1)


@lru_cache(maxsize=64)
def _any_form(forms: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(_expression(form, at) for at, form in enumerate(forms)))


@lru_cache(maxsize=64)
def _filled_in(forms: PlaceholderForms) -> re.Pattern[str] | None:
    """Return an expression of every text that a host fills in or runs."""
    listed = [each for each in (forms.default, forms.env, forms.input, *forms.also) if each]
    parts = [_any_form(tuple(listed)).pattern] if listed else []
    parts += [forms.special] if forms.special else []
    return re.compile("|".join(parts)) if parts else None
