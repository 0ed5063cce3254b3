"""What a checker does to clients: plays, one file per area."""

from accord.check.playing.actor import PLAYS
from accord.check.scenarios.client import (  # plays register themselves
    authorization,
    lists,
    opening,
    patience,
    process,
    questions,
    surprises,
    web,
)

__all__ = [
    "PLAYS",
    "authorization",
    "lists",
    "opening",
    "patience",
    "process",
    "questions",
    "surprises",
    "web",
]
