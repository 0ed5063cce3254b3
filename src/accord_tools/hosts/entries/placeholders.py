"""Placeholders for values, from `${env:NAME}` to the form of a host and back."""

import re
from functools import lru_cache
from typing import Final

from accord_tools.hosts.definition import Host, HostsError, PlaceholderForms
from accord_tools.hosts.entries.literals import variable_name

PLACEHOLDER: Final = re.compile(
    r"\$\{(?:env:(?P<env>[A-Za-z_]\w*)|input:(?P<input>[^${}:]+))(?::-(?P<default>[^${}]*))?\}"
)
"""A value to fill in, as entries have it here: a variable or an input, and its default."""


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


class ReservedText(HostsError):
    """A host would fill in, or run, a text that is meant literally; `place` is where."""

    def __init__(self, host: str, place: str) -> None:
        super().__init__(
            f"{host} would fill in or run a part of {place} that is meant as it stands: put the "
            "value into a variable, and name that as ${env:NAME}"
        )
        self.host = host
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
            ReservedText: it would fill in, or run, a text that is meant literally.
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
            raise ReservedText(self._host.name, place)
        return text

    def _form(self, found: re.Match[str], field: str, place: str) -> str:
        forms = self._forms
        default = found["default"]
        name = found["env"] or found["input"]
        is_input = found["env"] is None
        variable = variable_name(name) if is_input else name
        if field not in forms.fields:
            raise NoPlaceholder(self._host.name, variable, place)
        if forms.input and (is_input or not forms.env):
            _add(self.inputs, name)
            return _fill(forms.input, name)
        if not forms.env:
            raise NoPlaceholder(self._host.name, variable, place)
        if is_input:
            _add(self.remarks, f"{self._host.name} asks for nothing: set the variable {variable}")
        _add(self.variables, variable)
        if default is not None and forms.default:
            return _fill(forms.default, variable, default)
        if default is not None:
            _add(self.remarks, f"{self._host.name} knows no defaults: set the variable {variable}")
        return _fill(forms.env, variable)


def _fill(form: str, name: str, default: str = "") -> str:
    return re.sub("NAME|DEFAULT", lambda found: name if found[0] == "NAME" else default, form)


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


def _escape(form: str) -> str:
    """Return an expression of a text in which blanks may be left out."""
    return re.sub(r"(?:\\ )+", r"\\s*", re.escape(form))


def _expression(form: str, number: int) -> str:
    """Return a regular expression of a form, with groups for the name and the default."""
    text = _escape(form).replace("NAME", rf"(?P<name{number}>[A-Za-z_]\w*)", 1)
    return text.replace("DEFAULT", rf"(?P<default{number}>[^${{}}]*)", 1)


@lru_cache(maxsize=64)
def _any_form(forms: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(_expression(form, at) for at, form in enumerate(forms)))


@lru_cache(maxsize=64)
def _filled_in(forms: PlaceholderForms) -> re.Pattern[str] | None:
    """Return an expression of every text that a host fills in or runs.

    The beginning of a form is enough where it has brackets: hosts take more names than they say,
    and a placeholder that follows could close them.
    """
    parts = [forms.special] if forms.special else []
    for form in filter(None, (forms.default, forms.env, forms.input, *forms.also)):
        begin = form.partition("NAME")[0].rstrip()
        parts.append(_escape(begin) if len(begin) > 1 else _any_form((form,)).pattern)
    return re.compile("|".join(re.sub(r"\?P<\w+>", "", part) for part in parts)) if parts else None
