"""What a checker does to servers: one file per area of the specification."""

from accord.check.scenarios._scenario import SERVER_SCENARIOS as SCENARIOS
from accord.check.scenarios.server import (  # they register themselves
    cancellation,
    completion,
    errors,
    lifecycle,
    lists,
    logging,
    messages,
    pagination,
    process,
    progress,
    prompts,
    questions,
    resources,
    tools,
)

__all__ = [
    "SCENARIOS",
    "cancellation",
    "completion",
    "errors",
    "lifecycle",
    "lists",
    "logging",
    "messages",
    "pagination",
    "process",
    "progress",
    "prompts",
    "questions",
    "resources",
    "tools",
]
