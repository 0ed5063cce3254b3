"""A server of any kind, good or bad: `python fleet_server.py KIND`.

Most kinds speak raw JSON lines and import nothing else, so that they start fast.
"""

import json
import os
import signal
import subprocess
import sys
import time

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
SCHEMA = {"type": "object", "properties": {"number": {"type": "integer", "description": "any"}}}
HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(2)>",
    '"/><text>&amp;]]></text><!--',
    "\x1b[2J\x1b[31mred\x07",
    "=cmd|'/c calc'!A1",
    "[link](javascript:alert(3)) | `code` | **bold**\n# heading\n::error::fake",
    "right\u202eleft\u2066\u200b\ufeff\U000e0041",
    "two\nlines\r\nand\ttab \\ \" ' } {",
)


def tool(name="get_number", description="Returns the number that it gets.", **more):
    return {
        "name": name,
        "description": description,
        "inputSchema": SCHEMA,
        "annotations": {"readOnlyHint": True},
        **more,
    }


def write(message):
    text = message if isinstance(message, str) else json.dumps(message)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


class RawServer:
    """A server that follows the protocol, and that kinds change."""

    name = "raw"
    instructions = None

    def __init__(self, *arguments):
        self.arguments = arguments

    def run(self):
        for line in sys.stdin:
            try:
                message = json.loads(line)
            except ValueError:
                self.refuse(None, -32700, "not JSON")
                continue
            if not isinstance(message, dict) or not isinstance(message.get("method"), str):
                if not isinstance(message, dict) or "method" in message or "id" not in message:
                    self.refuse(None, -32600, "not a request")
            elif "id" in message:
                self.request(message)
        self.leave()

    def leave(self):
        """Called when the input has ended."""

    def request(self, message):
        id, method = message["id"], message["method"]
        if id is None or isinstance(id, bool | dict | list | float):
            return self.refuse(None, -32600, "not an id")
        if message.get("jsonrpc") != "2.0":
            return self.refuse(id, -32600, "not JSON-RPC 2.0")
        params = message.get("params", {})
        if not isinstance(params, dict):
            return self.refuse(id, -32602, "params is not an object")
        handler = {
            "initialize": self.initialize,
            "ping": lambda _: {},
            "tools/list": self.list_tools,
            "tools/call": self.call,
        }.get(method)
        if handler is None:
            return self.refuse(id, -32601, f"no method {method}")
        try:
            result = handler(params)
        except ValueError as error:
            return self.refuse(id, -32602, str(error))
        if result is not None:
            self.answer(id, result)
        return None

    def answer(self, id, result):
        write({"jsonrpc": "2.0", "id": id, "result": result})

    def refuse(self, id, code, text):
        error = {"jsonrpc": "2.0", "error": {"code": code, "message": text}}
        write(error if id is None else {**error, "id": id})

    def initialize(self, params):
        asked = params.get("protocolVersion")
        if not isinstance(asked, str) or not isinstance(params.get("clientInfo"), dict):
            raise ValueError("initialize needs protocolVersion and clientInfo")  # noqa: TRY004  # refused
        result = {
            "protocolVersion": asked if asked in REVISIONS else REVISIONS[-1],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": self.name, "version": "1.0"},
        }
        return (
            result if self.instructions is None else {**result, "instructions": self.instructions}
        )

    def tools(self):
        return [tool()]

    def list_tools(self, params):
        if "cursor" in params:
            raise ValueError("unknown cursor")
        return {"tools": self.tools()}

    def call(self, params):
        name, arguments = params.get("name"), params.get("arguments", {})
        if not isinstance(arguments, dict) or name not in {each["name"] for each in self.tools()}:
            raise ValueError("unknown tool")
        number = arguments.get("number", 0)
        if isinstance(number, bool) or not isinstance(number, int | float) or number != int(number):
            raise ValueError("number is not an integer")
        return {"content": [{"type": "text", "text": str(number)}], "isError": False}


# -- servers that are wrong


class Failing(RawServer):
    """Breaks a requirement: the result of a ping is not empty."""

    def answer(self, id, result):
        super().answer(id, result or {"pong": 1})


class FailingTest(RawServer):
    """Does not refuse what its own schema forbids."""

    def call(self, params):
        return {"content": [{"type": "text", "text": "yes"}], "isError": False}


class CrashOnCall(RawServer):
    """Ends when its tool is called."""

    def call(self, params):
        sys.stderr.write("no number for you\n")
        sys.stderr.flush()
        os._exit(7)


class HangOnCall(RawServer):
    """Never answers a call."""

    def call(self, params):
        return None


class NeverSucceeds(RawServer):
    """Has a second tool that answers every call with an error."""

    def tools(self):
        schema = {**SCHEMA, "required": ["number"]}
        return [tool(), tool("get_order", "Returns an order.", inputSchema=schema)]

    def call(self, params):
        result = super().call(params)
        return {**result, "isError": params["name"] == "get_order"}


class SlowCalls(RawServer):
    """Has more tools than there is time for, and ends when one of the last is called."""

    def tools(self):
        return [tool(f"get_{number}") for number in range(60)]

    def call(self, params):
        if params["name"] == "get_59":
            os._exit(3)
        time.sleep(0.05)
        return super().call(params)


class SlowTests(RawServer):
    """Takes more than a third of six seconds for each call."""

    def tools(self):
        return [tool(f"get_{number}") for number in range(6)]

    def call(self, params):
        time.sleep(2.2)
        return super().call(params)


class Rubbish(RawServer):
    """Prints other text to standard output."""

    def run(self):
        write("Welcome to my server!")
        super().run()

    def answer(self, id, result):
        write("DEBUG answering")
        super().answer(id, result)


class WrongId(RawServer):
    """Answers under an id that nothing was asked with."""

    def answer(self, id, result):
        super().answer("another", result)


class HugeLine(RawServer):
    """Answers a call with more than a client accepts."""

    def call(self, params):
        return {"content": [{"type": "text", "text": "x" * (17 << 20)}]}


class FloodStderr(RawServer):
    """Writes some megabytes to standard error."""

    def run(self):
        for _ in range(20):
            sys.stderr.write(("noise " * 20 + "\n") * 1000)
        super().run()


class FloodStdout(RawServer):
    """Writes notifications without an end after the handshake."""

    def answer(self, id, result):
        super().answer(id, result)
        if "protocolVersion" in result:
            note = {"level": "info", "data": "noise"}
            line = {"jsonrpc": "2.0", "method": "notifications/message", "params": note}
            text = (json.dumps(line) + "\n") * 1000
            try:
                while True:
                    sys.stdout.write(text)
            except OSError:
                os._exit(0)


# -- servers with an unusual life


class Silent(RawServer):
    """Reads, and never answers."""

    def request(self, message):
        """Answer nothing."""


class SlowStart(RawServer):
    """Takes its time to begin, and some of it on the CPU."""

    def run(self):
        # The system counts CPU time in steps of 10 ms.
        while time.process_time() < 0.1:
            pass
        time.sleep(0.8)
        super().run()


class CrashAtStart(RawServer):
    """Ends at once with an error."""

    def run(self):
        sys.exit("cannot open database: no such file")


class ExplainsFirst(RawServer):
    """Ends at once: says why, then how it is used, at length."""

    def run(self):
        sys.stderr.write("Error: FLEET_TEST_KEY is not set\n")
        sys.stderr.write("\n".join(f"--option-{number}" for number in range(60)))
        sys.exit("\nNode.js v20.20.2")


class ExitZero(RawServer):
    """Ends at once, as if all were well."""

    def run(self):
        """Do nothing."""


class LeavesChild(RawServer):
    """Starts a process and does not end it."""

    def run(self):
        quiet = subprocess.DEVNULL
        command = ["sleep", "300"]
        subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet)
        super().run()
        os._exit(0)


class LeavesDaemon(RawServer):
    """Starts a process that detaches itself in every way."""

    def run(self):
        # Its name is that of this process until it has become another program, which closes this.
        is_started, started = os.pipe()
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                nowhere = os.open(os.devnull, os.O_RDWR)
                for each in range(3):
                    os.dup2(nowhere, each)
                os.execlp("sleep", "sleep", "300")
            os._exit(0)
        os.close(started)
        os.wait()
        os.read(is_started, 1)
        os.close(is_started)
        super().run()


class IgnoresTerminate(RawServer):
    """Ends neither when its input ends nor when it is asked to."""

    def run(self):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        super().run()

    def leave(self):
        time.sleep(300)


class SlowEnd(RawServer):
    """Takes longer than three seconds to end."""

    def leave(self):
        time.sleep(4)


class Stubborn(LeavesDaemon):
    """Leaves a child and a process of its own, never answers, and does not want to end."""

    def run(self):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        subprocess.Popen(["sleep", "300"], stdout=subprocess.DEVNULL)
        super().run()
        time.sleep(300)

    def request(self, message):
        """Answer nothing."""


class NeedsVariable(RawServer):
    """Does not start without a variable."""

    def run(self):
        if "FLEET_TEST_KEY" not in os.environ:
            sys.exit("FLEET_TEST_KEY is not set")
        super().run()


# -- servers with unusual texts


class ManyTools(RawServer):
    """Lists ten thousand tools."""

    def tools(self):
        more = {"annotations": {"readOnlyHint": False}}
        return [tool(f"tool_{number}", **more) for number in range(10_000)]


class Hostile(RawServer):
    """Has texts that try to be more than texts, wherever a server has any."""

    name = HOSTILE[0]
    instructions = "\n".join(HOSTILE)

    def run(self):
        sys.stderr.write("\n".join(HOSTILE) + "\n")
        super().run()

    def tools(self):
        return [
            tool(f"get_{number}{text}", text, title=text) for number, text in enumerate(HOSTILE)
        ]


class Changing(RawServer):
    """Offers something else at each start."""

    started = time.time_ns()

    def tools(self):
        return [tool(description=f"Returns the number that it gets, since {self.started}.")]


class Echo(RawServer):
    """Repeats its environment and its arguments wherever it can."""

    @property
    def known(self):
        return json.dumps([sys.argv, {**os.environ}])

    @property
    def name(self):
        return f"echo {self.known}"

    @property
    def instructions(self):
        return self.known

    def run(self):
        sys.stderr.write(self.known + "\n")
        super().run()

    def tools(self):
        return [tool(description=self.known), tool("get_" + os.environ.get("FLEET_PLANTED", ""))]

    def call(self, params):
        raise ValueError(self.known)


def run_accord_server():
    from accord import Server
    from accord.types import ToolAnnotations

    server = Server("good")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def get_sum(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.resource("note://one")
    def one() -> str:
        """A note."""
        return "one"

    @server.prompt
    def greet(name: str) -> str:
        """Greet a person."""
        return f"Say hello to {name}."

    server.run()


KINDS = {
    "raw": RawServer,
    "failing": Failing,
    "failing-test": FailingTest,
    "crash-on-call": CrashOnCall,
    "hang-on-call": HangOnCall,
    "never-succeeds": NeverSucceeds,
    "slow-calls": SlowCalls,
    "slow-tests": SlowTests,
    "rubbish": Rubbish,
    "wrong-id": WrongId,
    "huge-line": HugeLine,
    "flood-stderr": FloodStderr,
    "flood-stdout": FloodStdout,
    "silent": Silent,
    "slow-start": SlowStart,
    "crash-at-start": CrashAtStart,
    "explains-first": ExplainsFirst,
    "exit-zero": ExitZero,
    "leaves-child": LeavesChild,
    "leaves-daemon": LeavesDaemon,
    "ignores-terminate": IgnoresTerminate,
    "slow-end": SlowEnd,
    "stubborn": Stubborn,
    "needs-variable": NeedsVariable,
    "many-tools": ManyTools,
    "hostile": Hostile,
    "changing": Changing,
    "echo": Echo,
}


if __name__ == "__main__":
    kind = sys.argv[1]
    if kind == "good":
        run_accord_server()
    else:
        KINDS[kind](*sys.argv[2:]).run()
