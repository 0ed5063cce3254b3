"""Messages as such: ids, notifications, batches, many at once, large ones."""

from typing import TYPE_CHECKING, Any, Final

from accord.check.probing.raw_connection import MessageTimeout, next_id
from accord.check.scenarios._scenario import scenario
from accord.check.scenarios.server._asking import answered, harmless, replies, reply_of, strays
from accord.protocol.revisions import REVISIONS

if TYPE_CHECKING:
    from accord.check.probing.probe import Probe
    from accord.check.probing.raw_connection import RawConnection

__all__: list[str] = []

# More than a pipe or a line buffer of usual size holds, and less than any sensible limit.
_LARGE: Final = 256 * 1024
_DEEP: Final = 40
_MANY: Final = 20
# Seconds after which an answer is missing, where a later request was answered.
_LATE: Final = 1.0


@scenario("ping.response.prompt")
async def pings(probe: "Probe") -> None:
    async with probe.borrow() as line:
        try:
            reply = await line.ask("ping")
        except MessageTimeout as error:
            probe.fail("ping.response.prompt", f"answers no ping: {error}")
            return
        probe.holds("ping.response.prompt", not reply.is_error, f"answers ping with {reply}")


@scenario("jsonrpc.request.answered", "jsonrpc.response.id-echo")
async def uses_ids_of_all_kinds(probe: "Probe") -> None:
    async with probe.borrow() as line:
        number = next_id()
        # One value as a number and as a string are two ids, and may be in flight together.
        ids: list[Any] = [number, str(number), "accord-check", "ä €", 2**53 - 1, -number, 0]
        for id in ids:
            await line.start(harmless(probe.facts), id=id)
        for id in ids:
            await answered(probe, line, id, harmless(probe.facts))


@scenario("jsonrpc.request.answered")
async def uses_the_ids_of_another_conversation(probe: "Probe") -> None:
    method = harmless(probe.facts)
    async with probe.borrow() as one, probe.borrow() as other:
        id = next_id()
        await one.begin(method, id=id)
        await other.begin(method, id=id)
        await answered(probe, one, id, method)
        await answered(probe, other, id, method)


@scenario("jsonrpc.request.answered")
async def asks_many_things_at_once(probe: "Probe") -> None:
    method = harmless(probe.facts)
    async with probe.borrow() as line:
        ids = [await line.start(method) for _ in range(_MANY)]
        for id in ids:
            if await answered(probe, line, id, f"one of {_MANY} requests at once") is None:
                return
        await line.collect(probe.subject.settling)
        for id in ids:
            count = sum(each.message.get("id") == id for each in replies(line.received))
            probe.holds("jsonrpc.request.answered", count == 1, f"answers id {id} {count} times")


@scenario("jsonrpc.notification.not-answered")
async def sends_notifications_that_nobody_knows(probe: "Probe") -> None:
    async with probe.borrow() as line:
        since = len(line.received)
        await line.notify("notifications/accord-check/unknown")
        await line.notify("accord-check/unknown", {"_meta": {"org.example/note": 1}})
        stray = await strays(probe, line, since, "a notification that it does not know")
        if stray is None:
            return
        probe.holds(
            "jsonrpc.notification.not-answered",
            not stray,
            f"answers a notification with {stray[0] if stray else ''}",
        )


@scenario("jsonrpc.request.answered", on=("stdio",), is_once=True)
async def sends_large_and_deep_messages(probe: "Probe") -> None:
    method = harmless(probe.facts)
    nested: Any = 1
    for _ in range(_DEEP):
        nested = [nested]
    async with probe.borrow() as line:
        for what, value in (
            ("large", "x" * _LARGE),
            ("deep", nested),
            ("odd", "\u2028\x00\U0001f30d"),
        ):
            id = await line.begin(method, {"_meta": {"org.example/note": value}})
            if await answered(probe, line, id, f"a {what} request") is None:
                return


@scenario("jsonrpc.batch.receive")
async def sends_a_batch(probe: "Probe") -> None:
    async with probe.open(is_judged=REVISIONS[probe.revision].batching) as line:
        if not REVISIONS[probe.revision].batching:
            batch = _batch(harmless(probe.facts), next_id(), f"batch-{next_id()}")
            await reply_of(probe, line, batch, "a batch, which its revision does not have")
            return
        if await _answers_batch(probe, line, "a batch"):
            # Some refuse the whole batch for one notification in it that they do not know.
            what = "a batch with a notification that it does not know (it answers plain batches)"
            notice = {"jsonrpc": "2.0", "method": "notifications/accord-check/unknown"}
            await _answers_batch(probe, line, what, notice)


def _batch(method: str, one: Any, other: Any, *between: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"jsonrpc": "2.0", "id": one, "method": method},
        *between,
        {"jsonrpc": "2.0", "id": other, "method": "ping"},
    ]


async def _answers_batch(
    probe: "Probe", line: "RawConnection", what: str, *between: dict[str, Any]
) -> bool:
    one, other = next_id(), f"batch-{next_id()}"
    batch = _batch(harmless(probe.facts), one, other, *between)
    # Once something later is answered, what is still missing does not come.
    found = await reply_of(probe, line, batch, what)
    if found is None:
        return False
    came = [each.message.get("id") for each in found]
    missing = [id for id in (one, other) if id not in came and not await _comes(line, id)]
    return probe.holds(
        "jsonrpc.batch.receive",
        not missing,
        f"leaves {len(missing)} of 2 requests in {what} unanswered",
    )


async def _comes(line: "RawConnection", id: Any) -> bool:
    try:
        await line.reply_to(id, patience=_LATE)
    except MessageTimeout:
        return False
    return True
