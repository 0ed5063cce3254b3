"""Questions of a server to its user: answered by options, or on the terminal."""

import asyncio
import json
import sys
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

from accord.cli.arguments import read_value, type_name
from accord.cli.terminal import escape_controls, note

if TYPE_CHECKING:
    from accord.types import ElicitParams

Answer = TypeVar("Answer")

_YES: Final = ("y", "yes", "true")
# The key of `--answer` for a form without fields, and for a page.
_AGREEMENT: Final = "agree"
_NO_TERMINAL: Final = "there is no terminal to answer on"


class _NoAnswer(Exception):
    """A form cannot be filled in: a field has no answer, and there is no terminal to ask on."""


class Questions:
    """Answers the questions of a server, one after another.

    Args:
        given: the answers on the command line: the field, the text, and whether it is JSON. Those
            for one field are for the questions in their order; the last one stays.
    """

    def __init__(self, given: Iterable[tuple[str, str, bool]]) -> None:
        self._given: dict[str, deque[tuple[str, bool]]] = defaultdict(deque)
        for key, text, is_json in given:
            self._given[key].append((text, is_json))
        # A server may ask several at once, and there is one terminal.
        self._turn = asyncio.Lock()

    async def fill_in(self, question: "ElicitParams") -> dict[str, Any] | bool:
        """Fill in a form, or decline: at the end of input (Ctrl-D), or if a field has no answer."""
        return await self._ask(partial(self._fill_in, question))

    async def visit(self, question: "ElicitParams") -> bool:
        """Show the user a page, and return whether the user agrees to open it."""
        return await self._ask(partial(self._visit, question))

    async def _ask(self, ask: Callable[[], Answer]) -> Answer | bool:
        from accord.runtime.tasks import run_in_thread

        def answer() -> Answer | bool:
            try:
                return ask()
            except EOFError:
                note("\ndeclined")
            except _NoAnswer as error:
                note(f"declined: {error}")
            return False

        async with self._turn:
            return await run_in_thread(answer, "accord-question")

    # -- in a thread

    def _fill_in(self, question: "ElicitParams") -> dict[str, Any] | bool:
        note(f"the server asks: {question.message}")
        schema = question.requested_schema or {}
        fields: dict[str, Any] = schema.get("properties") or {}
        required = schema.get("required") or ()
        self._explain_keys(fields or [_AGREEMENT])
        if not fields:
            return {} if self._agrees("agree? [y/N] ") else False
        answers = {
            name: self._answer_field(name, field, is_required=name in required)
            for name, field in fields.items()
        }
        return {name: value for name, value in answers.items() if value is not None}

    def _visit(self, question: "ElicitParams") -> bool:
        url = question.url or ""
        note(f"the server asks you to visit a page on {urlsplit(url).hostname}: {question.message}")
        note(f"  {url}")
        self._explain_keys([_AGREEMENT])
        return self._agrees("will you open it in your browser? [y/N] ")

    def _explain_keys(self, names: Iterable[str]) -> None:
        if is_interactive() and not all(name in self._given for name in names):
            note("(Ctrl-D declines)")

    def _agrees(self, prompt: str) -> bool:
        given = self._take(_AGREEMENT)
        if given is not None:
            return given[0].lower() in _YES
        if not is_interactive():
            raise _NoAnswer(f"{_NO_TERMINAL}; add --answer {_AGREEMENT}=yes")
        return _read_line(prompt).lower() in _YES

    def _take(self, name: str) -> tuple[str, bool] | None:
        given = self._given.get(name)
        if not given:
            return None
        return given.popleft() if len(given) > 1 else given[0]

    def _answer_field(self, name: str, schema: dict[str, Any], *, is_required: bool) -> Any:
        default = schema.get("default")
        given = self._take(name)
        if given is not None:
            return _read_given(name, schema, given)
        if not is_interactive():
            if default is not None or not is_required:
                return default
            kind = type_name(schema)
            raise _NoAnswer(f"{_NO_TERMINAL}; add --answer {name}=... ({kind})")
        about = schema.get("description") or schema.get("title")
        if about:
            note(f"  {about}")
        kind = "boolean, y or n" if schema.get("type") == "boolean" else type_name(schema)
        shown = default if isinstance(default, str) else json.dumps(default)
        hint = f" [{shown}]" if default is not None else "" if is_required else " [none]"
        while True:
            text = _read_line(f"  {name} ({kind}){hint}: ")
            if not text and (default is not None or not is_required):
                return default
            try:
                if text:
                    return read_value(text, schema)
            except ValueError as error:
                note(f"  {error}")


def is_interactive() -> bool:
    """Whether a user can read questions on stderr and answer on stdin."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


def _read_line(prompt: str) -> str:
    # Not input(), which writes the prompt to stdout: that is for the result.
    sys.stderr.write(escape_controls(" ".join(prompt.split("\n"))))
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.strip()


def _read_given(name: str, schema: dict[str, Any], given: tuple[str, bool]) -> Any:
    text, is_json = given
    try:
        return json.loads(text) if is_json else read_value(text, schema)
    except ValueError as error:
        raise _NoAnswer(f"--answer {name}: {error}") from None
