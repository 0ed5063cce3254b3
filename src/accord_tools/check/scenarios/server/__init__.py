"""Scenarios of a server check, one file per area of the specification."""

from accord_tools.check.scenarios._scenario import SERVER_SCENARIOS as SCENARIOS
from accord_tools.check.scenarios.server import (  # noqa: F401  # modules register their scenarios
    asked_questions,
    asked_rounds,
    auth,
    auth_users,
    capabilities,
    features,
    http_addresses,
    http_answers,
    http_older_form,
    http_sessions,
    http_stateless,
    lifecycle,
    listening,
    messages,
    notifications,
    stateless_requests,
    task_lifecycle,
    tasks_extension,
    tasks_lists,
    tools,
)

__all__ = ["SCENARIOS"]
