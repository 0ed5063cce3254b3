"""The programs that a client under check launches: its server, and a browser.

The server is a relay of its standard streams to the checker. Bytes pass unchanged. A second
connection reports received signals to the checker, and carries its commands. The browser fetches a
page and follows redirects; it is named in the variable BROWSER, which Python, xdg-open and many
programs read. Only the standard library is imported: clients wait for the start.
"""

import os
import signal
import socket
import sys
import threading

# By its path and without site-packages.
COMMAND = [sys.executable, "-I", "-S", __file__]
_CHUNK = 64 * 1024
_PATIENCE = 10


def browse(url: str) -> None:
    """Fetch a page of this machine, as a user who consents would."""
    import urllib.request

    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    if url.startswith(("http://127.0.0.1", "http://localhost")):
        opener.open(url, timeout=_PATIENCE).read()


def relay(port: int, key: str) -> None:
    """Relay stdin and stdout to a port."""
    data, control = (_connect(port, key, kind) for kind in ("data", "control"))
    is_stubborn = threading.Event()

    def report_signal(number: int, _frame: object) -> None:
        control.sendall(f"signal {number}\n".encode())
        if not is_stubborn.is_set():
            os._exit(0)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, report_signal)
    threading.Thread(target=_run_commands, args=(control, is_stubborn), daemon=True).start()
    threading.Thread(target=_read_input, args=(data, control), daemon=True).start()
    try:
        while chunk := data.recv(_CHUNK):
            rest = memoryview(chunk)
            while rest:
                rest = rest[os.write(1, rest) :]
    except OSError:
        pass
    while is_stubborn.is_set():
        is_stubborn.wait(1)
    os._exit(0)


def _connect(port: int, key: str, kind: str) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port))
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.sendall(f"{key} {kind} {os.getpid()}\n".encode())
    return made


def _read_input(data: socket.socket, control: socket.socket) -> None:
    try:
        while chunk := os.read(0, _CHUNK):
            data.sendall(chunk)
        control.sendall(b"input ended\n")
        data.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def _run_commands(control: socket.socket, is_stubborn: threading.Event) -> None:
    """Run commands of the checker: ignore signals, write to stderr, or exit with a code."""
    for line in control.makefile():
        word, _, rest = line.strip().partition(" ")
        if word == "stubborn":
            is_stubborn.set()
        elif word == "stderr":
            print(rest, file=sys.stderr, flush=True)
        elif word == "exit":
            os._exit(int(rest))


if __name__ == "__main__":
    if sys.argv[1] == "relay":
        relay(int(sys.argv[2]), sys.argv[3])
    else:
        browse(sys.argv[-1])
