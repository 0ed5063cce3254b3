"""Opening a conversation: revisions that the client asks for, and that it cannot speak."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from accord.check.playing.actor import Actor, play
from accord.check.probing.line import Line

if TYPE_CHECKING:
    from accord.check.playing.performance import Performance

__all__: list[str] = []


@play("lifecycle.version.client-disconnects", is_judged=False)
class AgreesOnNothing(Actor):
    """Answers initialize with a revision that does not exist."""

    def opening(self, line: Line, params: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**super().opening(line, params), "protocolVersion": "1999-12-31"}

    async def judge(self, show: "Performance") -> None:
        for line in self.lines:
            methods = [str(each.get("method")) for each in line.heard]
            later = [each for each in methods if each not in ("initialize", "ping")]
            show.holds(
                "lifecycle.version.client-disconnects",
                not later,
                f"goes on with {later[0] if later else ''} under a revision that does not exist",
            )
