"""Servers that answer pings wrongly."""

from check.mutants.foundation import Message, mutant


@mutant("ping.response.empty")
def says_pong(message: Message, request: Message) -> Message:
    if request.get("method") == "ping":
        message["result"] = {"pong": True}
    return message
