"""Scenarios of a client check: fake servers that decide requirements, one file per area."""

from accord_tools.check.fake_server.server import CLIENT_SCENARIOS
from accord_tools.check.scenarios.client import (  # noqa: F401  # modules register their scenarios
    answered_questions,
    answers,
    authorization,
    authorization_discovery,
    cancellation,
    clients_with_tasks,
    connections,
    stateless,
)

__all__ = ["CLIENT_SCENARIOS"]
