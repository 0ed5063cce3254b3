"""What a test of a server is and what became of it; nothing is run here."""

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import msgspec

from accord.check.rendering.wording import harmless

__all__ = ["Failure", "Kind", "Outcome", "Test", "Verdict", "pass_", "skip"]

Verdict: TypeAlias = Literal["pass", "fail", "skip"]
Kind: TypeAlias = Literal["tool", "resource", "prompt", "completion", "case"]


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
        return " ".join(harmless(f"expected {self.expected}; came {self.came}").split())

    def text(self) -> str:
        """Return it as lines for people."""
        lines = [("sent", self.given), ("expected", self.expected), ("came", self.came)]
        lines.append(("again", self.repeat))
        return "\n".join(f"{f'{name}:':<10}{harmless(said)}" for name, said in lines if said)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one test: calls made, and why it failed or was not run."""

    verdict: Verdict
    failure: Failure | None = None
    why: str = ""
    calls: int = 0


class Test(msgspec.Struct, frozen=True, kw_only=True):
    """One test: a sentence about a thing, and what finds out whether it holds."""

    __test__ = False  # pytest collects classes of this name

    kind: Kind
    subject: str
    name: str
    run: Callable[[Any], Outcome]


def pass_(calls: int = 1) -> Outcome:
    """Return the outcome of a test that held."""
    return Outcome(verdict="pass", calls=calls)


def skip(why: str) -> Outcome:
    """Return the outcome of a test that was not run."""
    return Outcome(verdict="skip", why=why)
