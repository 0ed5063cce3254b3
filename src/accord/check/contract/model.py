"""What a test of a server is and what became of it; nothing is run here."""

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import msgspec

from accord.check.rendering.wording import escape_unprintable

TestVerdict: TypeAlias = Literal["pass", "fail", "skip"]
TestKind: TypeAlias = Literal["tool", "resource", "prompt", "completion", "case"]


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """What came and what was expected.

    Attributes:
        expected: what should have come.
        came: what came instead.
        given: what was sent.
        repeat: the command line that sends it again; empty where there is none.
    """

    expected: str
    came: str
    given: str = ""
    repeat: str = ""

    def summary(self) -> str:
        """Return it as one line."""
        return " ".join(escape_unprintable(f"expected {self.expected}; came {self.came}").split())

    def text(self) -> str:
        """Return it as lines for people."""
        lines = [("sent", self.given), ("expected", self.expected), ("came", self.came)]
        lines.append(("again", self.repeat))
        return "\n".join(
            f"{f'{name}:':<10}{escape_unprintable(said)}" for name, said in lines if said
        )


class TestOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one test: calls made, and why it failed or was not run."""

    verdict: TestVerdict
    failure: Failure | None = None
    why: str = ""
    calls: int = 0


class Test(msgspec.Struct, frozen=True, kw_only=True):
    """One test: a sentence about a thing, and what finds out whether it holds."""

    __test__ = False  # pytest collects classes of this name

    kind: TestKind
    subject: str
    name: str
    run: Callable[[Any], TestOutcome]


def pass_(calls: int = 1) -> TestOutcome:
    """Return the outcome of a test that held."""
    return TestOutcome(verdict="pass", calls=calls)


def skip(why: str) -> TestOutcome:
    """Return the outcome of a test that was not run."""
    return TestOutcome(verdict="skip", why=why)
