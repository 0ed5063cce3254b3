"""What a checker does to clients: plays, one file per area."""

from accord.check.playing.actor import PLAYS
from accord.check.scenarios.client import opening  # plays register themselves

__all__ = ["PLAYS", "opening"]
