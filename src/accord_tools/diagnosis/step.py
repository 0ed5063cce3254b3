"""The steps of connecting to a server, and the list of them that a diagnosis fills."""

from collections.abc import Callable
from typing import Literal, NoReturn, TypeAlias

import msgspec

StepVerdict: TypeAlias = Literal["ok", "warning", "failed", "skipped"]


class DoctorStep(msgspec.Struct, kw_only=True):
    """One step: the request, the answer, and what to change if the step is not ok."""

    name: str
    verdict: StepVerdict
    asked: str = ""
    came: str = ""
    change: str = ""


class Stopped(Exception):
    """No further step makes sense."""


class StepList:
    """The steps of one diagnosis, each reported as soon as it is done.

    Args:
        report: called with each step.

    Attributes:
        target: the server, for people.
        steps: those that were taken, in order.
    """

    unreachable: frozenset[str] = frozenset()
    """Names of steps without which the server cannot be reached at all."""

    def __init__(self, target: str, report: Callable[[DoctorStep], object]) -> None:
        self.target = target
        self.steps: list[DoctorStep] = []
        self._report = report

    @property
    def failures(self) -> set[str]:
        """The names of the steps that failed."""
        return {each.name for each in self.steps if each.verdict == "failed"}

    def _add(self, name: str, verdict: StepVerdict, *, change: str = "", **facts: str) -> None:
        step = DoctorStep(name=name, verdict=verdict, change=change, **facts)
        self.steps.append(step)
        self._report(step)

    def _stop(self, name: str, **facts: str) -> NoReturn:
        self._add(name, "failed", **facts)
        raise Stopped
