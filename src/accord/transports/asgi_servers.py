"""What ASGI does not tell an app, but the server that runs it knows. Nothing depends on it."""

import signal

__all__ = ["is_stopping"]


def is_stopping() -> bool:
    """Whether the server is waiting for responses to end; false where that cannot be known.

    uvicorn tells apps only after all responses have ended, and event streams do not end by
    themselves. It listens to signals with a method that leads to what it knows.
    """
    server = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    return getattr(server, "should_exit", False) is True
