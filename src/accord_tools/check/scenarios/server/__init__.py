"""Scenarios of a server check, one file per area of the specification."""

from accord_tools.check.scenarios._scenario import SERVER_SCENARIOS as SCENARIOS
from accord_tools.check.scenarios.server import (  # noqa: F401  # modules register their scenarios
    auth,
    auth_users,
    capabilities,
    declared_capabilities,
    features,
    http,
    http_addresses,
    http_headers,
    http_older_form,
    http_sessions,
    http_stateless,
    lifecycle,
    listening,
    messages,
    notifications,
    pagination,
    questions,
    required_pages,
    rounds,
    schemas,
    stateless,
    stateless_features,
    tasks,
    tasks_extension,
    tasks_lists,
    tasks_unfinished,
    tools,
)

__all__ = ["SCENARIOS"]
