"""What it costs to import accord, as a ratio to what any such program must import.

Exits 1 when `accord --help` takes more than 100 ms of CPU.
"""

import subprocess
import sys

ROUNDS = 15
HELP_MOST = 0.1
PROGRAMS = {
    "interpreter alone": "pass",
    "msgspec, asyncio": "import msgspec, asyncio",
    "accord": "import accord",
    "accord.protocol.endpoint": "import accord.protocol.endpoint",
    "accord --help": """
import contextlib, io
from accord.cli.main import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main(["--help"])
""",
    "mcp.server": "import mcp.server",
    "fastmcp": "import fastmcp",
}
# The child reports its own CPU time: wall-clock times on a shared machine say little.
REPORT = """
import resource
usage = resource.getrusage(resource.RUSAGE_SELF)
print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss)
"""


def measure(program: str, rounds: int) -> tuple[float, float] | None:
    best, memory = float("inf"), float("inf")
    for _ in range(rounds):
        done = subprocess.run(
            [sys.executable, "-c", f"{program}\n{REPORT}"],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            return None
        seconds, kilobytes = map(float, done.stdout.split())
        best, memory = min(best, seconds), min(memory, kilobytes)
    return best, memory / 1024


def main() -> int:
    print("start-up, CPU time and memory")
    found = {}
    for name, program in PROGRAMS.items():
        heavy = name in ("mcp.server", "fastmcp")
        result = measure(program, 3 if heavy else ROUNDS)
        if result is None:
            print(f"  {name:26} not installed here")
            continue
        found[name] = result
        print(f"  {name:26}{result[0] * 1e3:8.1f} ms {result[1]:7.1f} MB")
    ratio = found["accord"][0] / found["msgspec, asyncio"][0]
    print(f"  accord / (msgspec, asyncio)        {ratio:6.2f}")
    help_ = found["accord --help"][0]
    print(f"  accord --help, of 100 ms           {help_ / HELP_MOST:6.2f}")
    if "mcp.server" in found:
        ratio = found["mcp.server"][0] / found["accord.protocol.endpoint"][0]
        print(f"  mcp.server / accord.protocol.endpoint {ratio:4.1f}")
    return 0 if help_ <= HELP_MOST else 1


if __name__ == "__main__":
    sys.exit(main())
