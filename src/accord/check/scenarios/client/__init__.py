"""What a checker does to clients: plays, one file per area."""

from accord.check.fake_server.server import CLIENT_SCENARIOS
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
    "CLIENT_SCENARIOS",
    "authorization",
    "lists",
    "opening",
    "patience",
    "process",
    "questions",
    "surprises",
    "web",
]
