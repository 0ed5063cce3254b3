"""One log line per request."""

import asyncio
import json as json_module
import logging
import time
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from accord.errors import InternalError, RequestError
from accord.middleware.requests import AnyContext, is_failed, mark_passing, params_of, target_of
from accord.secrets.masks import Secrets
from accord.server import Middleware, Proceed
from accord.types import CreateTaskResult, InputRequiredResult, TaskHandle

_TEXT_MOST: Final = 200
_ARGUMENTS_MOST: Final = 2000


def log_requests(
    *,
    logger: str | logging.Logger = "accord.requests",
    level: str | int = "info",
    json: bool = False,
    arguments: bool = False,
) -> Middleware:
    """Return middleware that logs one line per request: its name, its outcome, its duration.

    The outcome is "ok", "error" for the error result of a tool, "failed" with the code of a
    JSON-RPC error, "cancelled", "input_required" for questions to the client, or "task".

    Args:
        logger: the name of a logger, or a logger.
        level: of the lines, such as "info" or `logging.DEBUG`.
        json: whether a line is one JSON object.
        arguments: whether it has the arguments of tools and prompts, which may be secret.

    Raises:
        ValueError: the level does not exist.
    """
    target = logging.getLogger(logger) if isinstance(logger, str) else logger
    number = _level_of(level)

    async def log_request(ctx: AnyContext, proceed: Proceed) -> Any:
        if not target.isEnabledFor(number):
            return await proceed()
        started = time.perf_counter()
        given = _arguments_of(ctx) if arguments else None
        facts: dict[str, Any] = {"outcome": "ok"}
        try:
            result = await proceed()
            facts = {"outcome": _outcome_of(result)}
        except BaseException as error:
            facts = _describe_failure(error)
            raise
        finally:
            elapsed = round(1000 * (time.perf_counter() - started), 2)
            facts = {**_describe_request(ctx), **facts, "ms": elapsed}
            if given is not None:
                facts["arguments"] = given
            target.log(number, "%s", _as_json(facts) if json else _as_text(facts))
        return result

    return mark_passing(log_request)


def _level_of(level: str | int) -> int:
    if isinstance(level, int) and not isinstance(level, bool):
        return level
    found = logging.getLevelNamesMapping().get(str(level).upper())
    if found is None:
        raise ValueError(f"log_requests(): there is no log level {level!r:.80}")
    return found


def _describe_request(ctx: AnyContext) -> dict[str, Any]:
    facts: dict[str, Any] = {"method": ctx.method}
    if (name := target_of(ctx)) is not None:
        facts["name"] = _cut(name, _TEXT_MOST)
    request_id = ctx.request_id
    facts["id"] = _cut(request_id, _TEXT_MOST) if isinstance(request_id, str) else request_id
    if ctx.principal is not None:
        facts["subject"] = _cut(ctx.principal.subject, _TEXT_MOST)
    if (session_id := ctx.request.session_id) is not None:
        # All of it would let a reader of the log take the session over.
        facts["session"] = session_id[:8]
    return facts


def _outcome_of(result: object) -> str:
    if is_failed(result):
        return "error"
    if isinstance(result, InputRequiredResult):
        return "input_required"
    return "task" if isinstance(result, CreateTaskResult | TaskHandle) else "ok"


def _describe_failure(error: BaseException) -> dict[str, Any]:
    if isinstance(error, asyncio.CancelledError | GeneratorExit):
        return {"outcome": "cancelled"}
    if isinstance(error, RequestError):
        return {"outcome": "failed", "code": error.code}
    return {"outcome": "failed", "code": InternalError.default_code, "error": type(error).__name__}


def _arguments_of(ctx: AnyContext) -> Any:
    given = getattr(params_of(ctx), "arguments", None)
    if given is None or given is msgspec.UNSET:
        return None
    try:
        text = bytes(given) if isinstance(given, msgspec.Raw) else msgspec.json.encode(given)
        text = Secrets().hide_json(text)
        return json_module.loads(text) if len(text) <= _ARGUMENTS_MOST else _cut_bytes(text)
    except (ValueError, TypeError, RecursionError):
        return "(cannot be read)"


def _cut_bytes(text: bytes) -> str:
    return _cut(text[: 4 * _ARGUMENTS_MOST].decode(errors="replace"), _ARGUMENTS_MOST)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}..."


def _as_text(facts: dict[str, Any]) -> str:
    words = [_plain(facts.pop("method"))]
    if "name" in facts:
        words.append(_plain(facts.pop("name")))
    words.append(facts.pop("outcome"))
    words += [f"{key}={_plain(value)}" for key, value in facts.items()]
    return " ".join(words)


def _plain(value: object) -> str:
    """Write a value so that it is one word: quoted where it could look like another one."""
    if isinstance(value, str) and value and value.isprintable() and not set(value) & set(' "=\\'):
        return value
    return _dump(value)


def _as_json(facts: dict[str, Any]) -> str:
    return _dump({"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **facts})


def _dump(value: object) -> str:
    """Write JSON on one line; control and format characters are escaped, other text is readable."""
    text = json_module.dumps(value, ensure_ascii=False)
    if text.isprintable():
        return text
    # Only texts can hold such characters, where JSON allows the escape.
    return "".join(char if char.isprintable() else json_module.dumps(char)[1:-1] for char in text)
