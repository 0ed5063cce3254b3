"""Clients for the conformance suite: forked where accord is loaded already, a few at a time.

    python client_pool.py SOCKET AT_ONCE        wait for requests
    python -IS client_pool.py SOCKET ARGS...    request one client; this is what the suite runs

The suite starts all clients of a set at once, one command each, and looks neither at how they end
nor at what they print. So a client says last on stderr, which the suite keeps, how it ended.
"""

import os
import socket
import sys

# The suite says in these what it wants to see.
PREFIX = "MCP_CONFORMANCE_"
ENDED = "the client ended with"


def request(path: str, arguments: list[str]) -> int:
    """Let the pool play one client with our environment and our output; return its status."""
    told = [f"{name}={value}" for name, value in os.environ.items() if name.startswith(PREFIX)]
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as pool:
        pool.connect(path)
        socket.send_fds(pool, ["\0".join([*told, "", *arguments]).encode()], [1, 2])
        status = pool.recv(16).decode() or "nothing: the pool is gone"
    print(ENDED, status, file=sys.stderr)
    return int(status) if status.isdigit() else 1


def serve(path: str, at_once: int) -> None:
    """Play clients until killed, each in a process of its own."""
    import signal

    import conformance_client  # noqa: F401  what is loaded here is loaded in each child

    # A byte in this pipe is leave to run.
    leave, give = os.pipe()
    os.write(give, b"." * at_once)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(path)
        listening.listen(128)
        while True:
            asking, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                token = os.read(leave, 1)
                try:
                    status = play(asking)
                finally:
                    os.write(give, token)
                asking.send(str(status).encode())
                os._exit(0)
            asking.close()


def play(asking: socket.socket) -> int:
    """Be the client that was asked for."""
    import runpy
    import traceback
    from pathlib import Path

    said, files, _, _ = socket.recv_fds(asking, 65536, 2)
    for number, file in enumerate(files, 1):
        os.dup2(file, number)
    told, arguments = said.decode().split("\0\0")
    os.environ.update(each.split("=", 1) for each in told.split("\0"))
    script = str(Path(__file__).with_name("conformance_client.py"))
    sys.argv = [script, *arguments.split("\0")]
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as ending:
        return _status(ending.code)
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def _status(code: object) -> int:
    if code is None or isinstance(code, int):
        return code or 0
    print(code, file=sys.stderr)
    return 1


if __name__ == "__main__":
    if sys.flags.isolated:
        sys.exit(request(sys.argv[1], sys.argv[2:]))
    serve(sys.argv[1], int(sys.argv[2]))
