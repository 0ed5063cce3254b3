"""Generated arguments, and the smallest of those that fail; to be imported where it is used."""

import json
from collections.abc import Callable
from random import Random
from typing import Any, Final

import msgspec

from accord.check.contract.model import Failure
from accord.check.contract.strategies import strategy_of
from accord.errors import MissingExtra

try:
    import hypothesis
except ImportError:
    raise MissingExtra("test", needed_for="generating arguments") from None

__all__ = ["Enough", "Found", "NothingGenerated", "smallest_failure", "smallest_value"]

# Tries to find a smaller input that fails: all, and failing ones that cost a wait or a start.
_TRIES: Final = 400
_COSTLY: Final = {"silence": 3, "end": 40}


class NothingGenerated(Exception):
    """The generator cannot make arguments from a schema; the message says why."""


class Found(msgspec.Struct, frozen=True):
    """A failure, of which kind it is, and the arguments that cause it."""

    kind: str
    failure: Failure
    arguments: Any = None


class _Broken(Exception):
    """Tells the generator that an input failed."""


class Enough(BaseException):
    """Ends the search for a smaller input."""


def smallest_failure(
    schema: dict[str, Any],
    attempt: Callable[[Any], Found | None],
    *,
    is_valid: Callable[[Any], bool],
    examples: int,
    seed: int,
) -> Found | None:
    """Try generated arguments; return the smallest that fails in the way the first did.

    Args:
        schema: what to generate from.
        attempt: tries arguments.
        is_valid: leaves out what the generator got wrong.
        examples: how many to try.
        seed: the same seed gives the same arguments.

    Raises:
        NothingGenerated: none could be made.
    """
    strategy = strategy_of(schema).filter(is_valid)
    search = _Search(attempt)
    settings = hypothesis.settings(
        max_examples=examples,
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
        verbosity=hypothesis.Verbosity.quiet,
    )
    try:

        @hypothesis.seed(seed)
        @settings
        @hypothesis.given(strategy)
        def tried(arguments: Any) -> None:
            search.step(arguments)

        tried()
    except (_Broken, Enough):
        pass
    except Exception as error:
        # A server that does not always answer the same still has failed once.
        if search.best is None:
            raise NothingGenerated(f"{type(error).__name__}: {error}".split("\n", 1)[0]) from None
    return search.best


def smallest_value(schema: dict[str, Any], is_valid: Callable[[Any], bool]) -> Any:
    """Return the simplest value that a schema allows.

    Raises:
        NothingGenerated: none was found.
    """
    settings = hypothesis.settings(
        database=None, deadline=None, suppress_health_check=list(hypothesis.HealthCheck)
    )
    try:
        return hypothesis.find(
            strategy_of(schema),
            is_valid,
            settings=settings,
            random=Random(0),  # noqa: S311  # the same values each time are the purpose
        )
    except Exception as error:
        raise NothingGenerated(f"{type(error).__name__}: {error}".split("\n", 1)[0]) from None


class _Search:
    def __init__(self, attempt: Callable[[Any], Found | None]) -> None:
        self.best: Found | None = None
        self._attempt = attempt
        self._tries = 0
        self._failing = 0

    def step(self, arguments: Any) -> None:
        if self.best is not None:
            self._tries += 1
            if self._tries > _TRIES or self._failing > _COSTLY.get(self.best.kind, _TRIES):
                raise Enough
        found = self._attempt(arguments)
        if found is None or (self.best is not None and found.kind != self.best.kind):
            return
        self._failing += 1
        found = msgspec.structs.replace(found, arguments=arguments)
        if self.best is None or _size(found) <= _size(self.best):
            self.best = found
        raise _Broken


def _size(found: Found) -> tuple[int, str]:
    text = json.dumps(found.arguments, sort_keys=True)
    return len(text), text
