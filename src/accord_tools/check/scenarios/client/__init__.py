"""Scenarios of a client check: fake servers that decide requirements, one file per area."""

from accord_tools.check.fake_server.server import CLIENT_SCENARIOS
from accord_tools.check.scenarios.client import (  # noqa: F401  # modules register their scenarios
    answers,
    authorization,
    authorization_discovery,
    authorization_issuers,
    authorization_registration,
    authorization_scopes,
    caching,
    cancellation,
    eras,
    extension_tasks,
    failures,
    hosted_tasks,
    http,
    lifecycle,
    listening,
    mirroring,
    modes,
    questions,
    results,
    rounds,
)

__all__ = ["CLIENT_SCENARIOS"]
