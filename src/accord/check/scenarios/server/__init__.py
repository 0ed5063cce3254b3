"""What a checker does to servers: one file per area of the specification."""

from accord.check.scenarios._scenario import SERVER_SCENARIOS as SCENARIOS
from accord.check.scenarios.server import (  # they register themselves
    cancellation,
    errors,
    lifecycle,
    messages,
    process,
    progress,
)

__all__ = ["SCENARIOS", "cancellation", "errors", "lifecycle", "messages", "process", "progress"]
