"""What a checker does to servers: one file per area of the specification."""

from accord.check.scenarios._scenario import SERVER_SCENARIOS as SCENARIOS
from accord.check.scenarios.server import lifecycle, messages  # they register themselves

__all__ = ["SCENARIOS", "lifecycle", "messages"]
