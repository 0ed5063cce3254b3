"""Listening sockets; without what serves on them, so that a parent process can open them.

An address is "HOST:PORT", ":PORT" for all addresses of the machine, "unix:PATH", "fd:NUMBER" for a
socket that the process was started with, or "systemd" for those that systemd passes on.
"""

import errno
import os
import socket
import stat
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from accord.errors import TransportError

SOCKET_MODE: Final = 0o660
"""By default, the user and the group of a Unix socket may connect to it."""

_BACKLOG: Final = 2048
# The first descriptor that systemd passes on; see sd_listen_fds(3).
_FIRST_PASSED: Final = 3
_EXPECTED: Final = "expected HOST:PORT, :PORT, unix:PATH, fd:NUMBER or systemd"


class UnixSocket(socket.socket):
    """A listening Unix socket whose file goes away with it."""

    _file: tuple[str, int] | None = None

    def own(self, path: str) -> None:
        """Remove this file when the socket is closed."""
        self._file = path, os.stat(path).st_ino

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            path, inode = file
            with suppress(OSError):
                if os.stat(path).st_ino == inode:  # no other server has replaced it
                    os.unlink(path)
        super().close()


def listen(host: str, port: int) -> list[socket.socket]:
    """Open listening sockets for an address: one for each family that it has.

    Raises:
        TransportError: the address cannot be listened on.
    """
    opened: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(
            host or None,
            port,
            type=socket.SOCK_STREAM,
            flags=socket.AI_PASSIVE | socket.AI_ADDRCONFIG,
        )
        for family, _, _, _, address in dict.fromkeys(found):
            # With port 0 any free port, the same for all families.
            free = opened[0].getsockname()[1] if opened else port
            made = socket.create_server((*address[:1], free), family=family, backlog=_BACKLOG)
            opened.append(_as_tcp(made))
    except OSError as error:
        close_all(opened)
        raise _refusal(f"{host}:{port}", error) from None
    return opened


def listen_on(addresses: Iterable[str], *, mode: int = SOCKET_MODE) -> list[socket.socket]:
    """Open listening sockets for several addresses; none if one of them cannot be listened on.

    Args:
        addresses: see the module.
        mode: that of Unix sockets; users need the right to write.

    Raises:
        TransportError: an address cannot be listened on.
        ValueError: an address is malformed, or the list is empty.
    """
    wanted = [(each, split_address(each)) for each in addresses]
    if not wanted:
        raise ValueError(f"listen is empty, {_EXPECTED}")
    opened: list[socket.socket] = []
    try:
        for text, (kind, place, port) in wanted:
            if kind == "tcp":
                opened += listen(place, port)
            elif kind == "unix":
                opened.append(_listen_unix(place, mode))
            elif kind == "fd":
                opened.append(adopt(int(place), text))
            else:
                opened += _adopt_passed(place)
    except BaseException:
        close_all(opened)
        raise
    if any(kind == "systemd" for _, (kind, _, _) in wanted):
        _forget_passed()
    return opened


def close_all(sockets: Iterable[socket.socket]) -> None:
    """Close sockets, and remove the files of Unix sockets that were made here."""
    for each in sockets:
        each.close()


def split_address(text: str) -> tuple[str, str, int]:
    """Return the kind of an address, what it names, and its port.

    >>> split_address("[::1]:8000")
    ('tcp', '::1', 8000)
    >>> split_address("unix:/run/desk.sock")
    ('unix', '/run/desk.sock', 0)

    Raises:
        ValueError: it is malformed.
    """
    kind, colon, place = text.partition(":")
    if kind == "systemd":
        return kind, place, 0
    if kind == "unix" and colon and place and "\0" not in place:
        return kind, place, 0
    if kind == "fd" and place.isascii() and place.isdigit():
        return kind, place, 0
    host, colon, port = text.rpartition(":")
    if not colon or kind in ("unix", "fd") or not (port.isascii() and port.isdigit()):
        raise ValueError(f"listen: {text!r} is not an address, {_EXPECTED}")
    if int(port) > 65535:
        raise ValueError(f"listen: the port of {text!r} is more than 65535")
    if host.startswith("[") and host.endswith("]"):
        return "tcp", host[1:-1], int(port)
    if ":" in host or "[" in host or "/" in host:
        raise ValueError(f"listen: {text!r} is not an address; write [::1]:8000 for IPv6")
    return "tcp", host, int(port)


# -- Unix sockets


def _listen_unix(path: str, mode: int) -> UnixSocket:
    family = getattr(socket, "AF_UNIX", None)
    if family is None:
        raise TransportError(f"cannot listen on unix:{path}: this system has no Unix sockets")
    made = UnixSocket(family, socket.SOCK_STREAM)
    try:
        _remove_stale(path)
        # Other users may not connect before the mode is set.
        before = os.umask(0o177)
        try:
            made.bind(path)
        finally:
            os.umask(before)
        made.own(path)
        os.chmod(path, mode)
        made.listen(_BACKLOG)
    except OSError as error:
        made.close()
        raise _refusal(f"unix:{path}", error) from None
    return made


def _remove_stale(path: str) -> None:
    """Remove the socket that a server has left which ended without removing it.

    Raises:
        OSError: another server listens on it, or it is another kind of file.
    """
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise OSError(errno.EEXIST, "there is a file that is not a socket")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(1.0)
        try:
            asking.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
        except FileNotFoundError:  # it was removed in between
            return
        except (TimeoutError, BlockingIOError):
            pass  # its queue is full, so it is in use
    raise OSError(errno.EADDRINUSE, "address already in use")


# -- sockets that others have opened


def adopt(descriptor: int, name: str) -> socket.socket:
    """Return the listening socket with a descriptor that this process has inherited.

    Args:
        descriptor: its number.
        name: how to call it in an error.

    Raises:
        TransportError: there is no listening stream socket with this number.
    """
    try:
        found = socket.socket(fileno=descriptor)
    except OSError as error:
        raise _refusal(name, error) from None
    os.set_inheritable(descriptor, False)
    is_ip = found.family in (socket.AF_INET, socket.AF_INET6)
    is_listening = found.type == socket.SOCK_STREAM and (
        is_ip or found.family == getattr(socket, "AF_UNIX", None)
    )
    with suppress(AttributeError, OSError):  # not all systems can tell
        is_listening &= bool(found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    if not is_listening:
        found.detach()
        raise TransportError(
            f"cannot listen on {name}: descriptor {descriptor} is not a listening stream socket"
        )
    return _as_tcp(found) if is_ip else found


def _adopt_passed(name: str) -> list[socket.socket]:
    """Return the sockets that systemd passes on: all, or those with a name."""
    shown = f"systemd:{name}" if name else "systemd"
    pid, count = os.environ.get("LISTEN_PID", ""), os.environ.get("LISTEN_FDS", "")
    if pid != str(os.getpid()) or not count.isdigit() or int(count) == 0:
        why = "LISTEN_FDS is not set" if not count else f"LISTEN_PID is {pid or 'not set'}"
        if pid == str(os.getpid()) and count:
            why = f"LISTEN_FDS is {count}"
        raise TransportError(
            f"cannot listen on {shown}: {why}; the process has to be started by a systemd "
            "service that has a socket unit"
        )
    names = os.environ.get("LISTEN_FDNAMES", "").split(":")
    passed = range(_FIRST_PASSED, _FIRST_PASSED + int(count))
    wanted = [
        each
        for place, each in enumerate(passed)
        if not name or (place < len(names) and names[place] == name)
    ]
    if not wanted:
        raise TransportError(
            f"cannot listen on {shown}: the sockets are called {', '.join(filter(None, names))} "
            "(FileDescriptorName in the socket unit)"
        )
    return [adopt(each, shown) for each in wanted]


def _forget_passed() -> None:
    """Remove the variables of systemd: children of this process would take them for theirs."""
    for variable in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"):
        os.environ.pop(variable, None)


def _as_tcp(made: socket.socket) -> socket.socket:
    # asyncio sets TCP_NODELAY only on sockets that name their protocol. Without it the second part
    # of a response waits some 40 ms for the client to acknowledge the first.
    return socket.socket(made.family, socket.SOCK_STREAM, socket.IPPROTO_TCP, fileno=made.detach())


def _refusal(name: str, error: OSError) -> TransportError:
    why = (error.strerror or str(error)).lower()
    if error.errno == errno.EADDRINUSE:
        why = "address already in use; end what listens there, or choose another address"
    elif error.errno == errno.EACCES and ":" in name and not name.startswith("unix:"):
        why += " (ports below 1024 need a privilege)"
    elif name.startswith("unix:") and "too long" in why:
        why = "the path is too long for a Unix socket; most systems allow about 100 bytes"
    elif name.startswith("unix:") and isinstance(error, FileNotFoundError):
        why = "there is no such folder"
    return TransportError(f"cannot listen on {name}: {why}")
