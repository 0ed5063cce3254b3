"""Scenarios of a server check, one file per area of the specification."""

from accord_tools.check.scenarios._scenario import SERVER_SCENARIOS as SCENARIOS
from accord_tools.check.scenarios.server import (  # noqa: F401  # modules register their scenarios
    asked_questions,
    asked_rounds,
    auth,
    features,
    http_answers,
    http_connections,
    http_stateless,
    lifecycle,
    notifications,
    stateless_requests,
    tasks,
    tasks_extension,
    tools,
)

__all__ = ["SCENARIOS"]
