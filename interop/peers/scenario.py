"""The scenario that every client in Python plays, and how it reports: one JSON object at the end.

A player has one method per kind of step. What it returns is the outcome; what it raises is one too,
as `{"error": ...}`, so that a failure does not keep us from the next step.
"""

import asyncio
import json
import os
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

# What a step may take; the slowest waits for a server that starts.
PATIENCE: Final = 15.0
FORM: Final = os.environ.get("INTEROP_FORM", "stdio")
# What never comes in this form of transport is not waited for as long.
IS_POOR: Final = FORM == "json"
# What no server without sessions can do.
NEEDS_SESSION: Final = {"cancel", "time-out", "log", "grow", "subscribe", "sample", "roots"} | {
    f"elicit {action}" for action in ("accept", "decline", "cancel")
}
# What the revision without a handshake and sessions has left behind.
MODERN: Final = "2026-07-28"
OLDER_ERA: Final = {"ping", "roots changed"}
# Several questions at once, which only that revision puts into one message.
NEWER_ERA: Final = {"together"}
# How often, and how long in all, we look whether a notification has come.
TURN: Final = 0.005
TURNS: Final = 100 if IS_POOR else 1000
# A call to be cancelled reports that it has begun, where the form of HTTP allows it.
BEGUN: Final = 0.5 if IS_POOR else PATIENCE

WHO: Final = {"question": "who?"}
# More than a pipe holds, in characters of every length, with a separator that JSON need not escape.
LARGE: Final = "a\u00e4\u20ac\U0001f600\u2028" * 80_000
SCENARIO: Final[list[tuple[str, str, tuple[Any, ...]]]] = [
    ("opened", "opened", ()),
    ("tools", "tools", ()),
    ("add", "call", ("add", {"a": 1, "b": 2})),
    ("typed result", "typed", ()),
    ("weather", "weather", ()),
    ("fail", "call", ("fail", {})),
    ("raised", "raised", ()),
    ("media", "call", ("media", {})),
    ("unknown tool", "call", ("nothing", {})),
    ("bad arguments", "call", ("add", {"a": "x", "b": 2})),
    ("progress", "progress", (3,)),
    ("cancel", "cancel", ()),
    ("time-out", "time_out", ()),
    ("log", "log", ()),
    ("grow", "grow", ()),
    ("large", "large", (LARGE,)),
    ("at once", "at_once", (20,)),
    ("invalid cursor", "invalid_cursor", ()),
    ("ping", "ping", ()),
    ("sample", "call", ("ask_model", {"question": "hello"})),
    ("elicit accept", "call", ("ask_user", WHO)),
    ("elicit decline", "call", ("ask_user", WHO)),
    ("elicit cancel", "call", ("ask_user", WHO)),
    ("roots", "call", ("folders", {})),
    ("together", "call", ("ask_together", WHO)),
    ("roots changed", "roots_changed", ()),
    ("resources", "resources", ()),
    ("templates", "templates", ()),
    ("read text", "read", ("memo://today",)),
    ("read blob", "read", ("memo://logo",)),
    ("read template", "read", ("memo://notes/monday",)),
    ("read missing", "read", ("memo://nowhere",)),
    ("subscribe", "subscribe", ("memo://today",)),
    ("prompts", "prompts", ()),
    ("prompt", "prompt", ("greet", {"name": "Ada"})),
    ("long prompt", "prompt", ("tour", {})),
    ("unknown prompt", "prompt", ("nothing", {})),
    ("missing argument", "prompt", ("greet", {})),
    ("complete prompt", "complete_prompt", ("greet", "mood", "h")),
    ("complete template", "complete_template", ("memo://notes/{name}", "name", "mo")),
    ("counted on", "progress", (5,)),
    ("complete in context", "complete_in_context", ("greet", "mood", "", {"name": "Marvin"})),
]


async def play(
    connected: Callable[[], AbstractAsyncContextManager[Any]],
    scenario: list[tuple[str, str, tuple[Any, ...]]] = SCENARIO,
) -> None:
    """Play the scenario with the player that a connection yields, and print the outcomes."""
    outcomes: dict[str, Any] = {}
    try:
        async with connected() as player:
            for name, method, args in scenario:
                step = getattr(player, method, None)
                if step is not None and name not in _left_out(outcomes):
                    outcomes[name] = await _outcome(step(*args))
        outcomes["closed"] = True
    finally:
        print(json.dumps(outcomes))


def _left_out(outcomes: dict[str, Any]) -> set[str]:
    """Return the steps that cannot be played with what is known so far."""
    is_modern = outcomes.get("opened", {}).get("revision") == MODERN
    lacking = OLDER_ERA if is_modern else NEWER_ERA
    return lacking | NEEDS_SESSION if FORM == "stateless" else lacking


async def _outcome(step: Coroutine[Any, Any, Any]) -> Any:
    try:
        async with asyncio.timeout(PATIENCE):
            return await step
    except Exception as error:
        code = getattr(getattr(error, "error", error), "code", None)
        return {"error": {"type": type(error).__name__, "code": code, "text": str(error)}}


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what a notification brings; what does not come is missing in the outcome."""
    for _ in range(TURNS):
        if condition():
            return
        await asyncio.sleep(TURN)
