"""Messages as such: unknown methods, malformed text, ids, batches, many at once."""

from typing import TYPE_CHECKING

from accord.check.scenarios._scenario import scenario

if TYPE_CHECKING:
    from accord.check.probing.probe import Probe

__all__: list[str] = []


@scenario("errors.code.method-not-found")
async def asks_for_a_method_that_does_not_exist(probe: "Probe") -> None:
    async with probe.open(is_judged=False) as line:
        reply = await line.ask("accord/no-such-method", {})
        probe.holds(
            "errors.code.method-not-found",
            reply.code == -32601,
            f"answers an unknown method with {reply}, expected error -32601",
        )


@scenario("ping.response.prompt")
async def pings(probe: "Probe") -> None:
    reply = await probe.line.ask("ping")
    probe.holds("ping.response.prompt", not reply.is_error, f"answers ping with {reply}")
