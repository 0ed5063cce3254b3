"""A test of a server, its outcome and its failure."""

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import msgspec

from accord.check.rendering.wording import escape_unprintable

TestVerdict: TypeAlias = Literal["pass", "fail", "skip"]
TestKind: TypeAlias = Literal["tool", "resource", "prompt", "completion", "case"]


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
    """The verdict of one test, why it failed or was skipped, and the calls it made."""

    __test__ = False  # pytest collects classes of this name

    verdict: TestVerdict
    failure: Failure | None = None
    why: str = ""
    calls: int = 0


class Test(msgspec.Struct, frozen=True, kw_only=True):
    """One test: a sentence about a tool or the like, and the function that tests it."""

    __test__ = False  # pytest collects classes of this name

    kind: TestKind
    subject: str
    name: str
    run: Callable[[Any], TestOutcome]


def pass_(calls: int = 1) -> TestOutcome:
    """Return the outcome of a test that passed."""
    return TestOutcome(verdict="pass", calls=calls)


def skip(why: str) -> TestOutcome:
    """Return the outcome of a test that was skipped."""
    return TestOutcome(verdict="skip", why=why)
