"""Prints in every way."""

import atexit
import os
import subprocess
import sys
import threading

from accord import Server

print("NOISE at import")
print("NOISE at import, flushed", flush="--flushed" in os.environ.get("NOISY", ""))
os.environ.get("NOISY") and os.write(1, b"NOISE at import, descriptor\n")
os.environ.get("NOISY") and subprocess.run(["echo", "NOISE at import, child"], check=True)
atexit.register(print, "NOISE at exit")

server = Server("noisy")


@server.tool
def shout() -> str:
    """Print in every way."""
    print("NOISE in a tool")
    print("NOISE in a tool, flushed", flush=True)
    sys.stdout.write("NOISE written\n")
    sys.__stdout__.write("NOISE written to the original\n")
    os.write(1, b"NOISE to the descriptor\n")
    os.system("echo NOISE of a shell")
    subprocess.run([sys.executable, "-c", "print('NOISE of a child')"], check=True)
    thread = threading.Thread(target=print, args=("NOISE in a thread",))
    thread.start()
    thread.join()
    return "done"


@server.tool(inline=True)
def shout_inline() -> str:
    """Print on the loop."""
    print("NOISE inline", flush=True)
    return "done"


@server.tool
async def shout_async() -> str:
    """Print in a coroutine."""
    print("NOISE async", flush=True)
    return "done"


@server.tool
def listen() -> str:
    """Read from stdin."""
    return repr(sys.stdin.readline()) + repr(os.read(0, 10))


if __name__ == "__main__":
    print("NOISE before run")
    server.run()
    print("NOISE after run")
