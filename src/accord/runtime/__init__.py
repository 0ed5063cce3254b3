"""An endpoint on an event loop: handlers, replies, deadlines, cancellation."""

GRACE = 1.5
"""Seconds that running calls get to finish at the end of a process: clients wait 2 s, then kill."""
