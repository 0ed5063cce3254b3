"""A server that sends many requests and reads no answers meanwhile."""

import json
import sys

COUNT, SIZE = int(sys.argv[1]), int(sys.argv[2])


def send(message: object) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")  # type: ignore[dict-item]
    sys.stdout.flush()


opening = json.loads(sys.stdin.readline())
result = {
    "protocolVersion": opening["params"]["protocolVersion"],
    "capabilities": {},
    "serverInfo": {"name": "asking", "version": "1"},
}
send({"id": opening["id"], "result": result})
sys.stdin.readline()
waiting = json.loads(sys.stdin.readline())
for number in range(COUNT):
    sys.stderr.write(f"asked {number}\n")
    send({"id": f"{number}-" + "x" * SIZE, "method": "ping"})
answered = 0
while answered < COUNT:
    answered += "result" in json.loads(sys.stdin.readline())
send({"id": waiting["id"], "result": {}})
sys.stdin.read()
