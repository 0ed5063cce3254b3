"""Where a server can listen: addresses, Unix sockets, sockets that others have opened."""

import os
import socket
import stat
import subprocess
import sys

import pytest

from accord.errors import TransportError
from accord.http.server.sockets import close_all, listen_on, split_address

PASSED = """
import os
import sys
from accord.http.server.sockets import listen_on

os.environ["LISTEN_PID"] = str(os.getpid())
found = listen_on(sys.argv[1:])
left = [name for name in os.environ if name.startswith("LISTEN_")]
print([each.getsockname() for each in found], [os.get_inheritable(each.fileno()) for each in found])
print(left)
"""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("127.0.0.1:8000", ("tcp", "127.0.0.1", 8000)),
        ("localhost:0", ("tcp", "localhost", 0)),
        ("[::1]:8000", ("tcp", "::1", 8000)),
        (":8000", ("tcp", "", 8000)),
        ("unix:relative.sock", ("unix", "relative.sock", 0)),
        ("unix:/run/a:b.sock", ("unix", "/run/a:b.sock", 0)),
        ("fd:3", ("fd", "3", 0)),
        ("systemd", ("systemd", "", 0)),
        ("systemd:web", ("systemd", "web", 0)),
    ],
)
def test_addresses_have_one_form_each(text, found):
    assert split_address(text) == found


@pytest.mark.parametrize(
    "text",
    ["", "8000", "localhost", "localhost:", "localhost:x", "::1:8000", "[::1]", "unix:", "unix",
     "fd:x", "fd:", "localhost:65536", "http://localhost:80", "localhost:٣"],
)  # fmt: skip
def test_a_malformed_address_is_refused(text):
    with pytest.raises(ValueError, match="listen: "):
        split_address(text)


def test_several_addresses_are_listened_on(tmp_path):
    path = str(tmp_path / "a.sock")
    sockets = listen_on(["127.0.0.1:0", f"unix:{path}", "127.0.0.2:0"])
    try:
        names = [each.getsockname() for each in sockets]
        assert names[0][0] == "127.0.0.1"
        assert names[1] == path
        assert names[2][0] == "127.0.0.2"
        for each in sockets:
            with socket.socket(each.family) as client:
                client.connect(each.getsockname())
    finally:
        close_all(sockets)


def test_all_addresses_of_the_machine_are_listened_on():
    sockets = listen_on([":0"])
    try:
        assert "0.0.0.0" in [each.getsockname()[0] for each in sockets]
        assert len({each.getsockname()[1] for each in sockets}) == 1
    finally:
        close_all(sockets)


def test_no_socket_stays_open_if_one_address_is_taken(tmp_path):
    path = tmp_path / "a.sock"
    (taken,) = listen_on(["127.0.0.1:0"])
    address = f"127.0.0.1:{taken.getsockname()[1]}"
    with pytest.raises(TransportError, match=f"cannot listen on {address}: .*already in use"):
        listen_on([f"unix:{path}", address])
    assert not path.exists()
    close_all([taken])


def test_an_empty_list_is_refused():
    with pytest.raises(ValueError, match="listen is empty"):
        listen_on([])


# -- Unix sockets


def test_a_unix_socket_is_for_the_user_and_the_group_and_goes_away(tmp_path):
    path = tmp_path / "a.sock"
    sockets = listen_on([f"unix:{path}"])
    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    close_all(sockets)
    assert not path.exists()


def test_the_mode_of_a_unix_socket_can_be_chosen(tmp_path):
    path = tmp_path / "a.sock"
    sockets = listen_on([f"unix:{path}"], mode=0o600)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    close_all(sockets)


def test_the_socket_of_a_server_that_crashed_is_replaced(tmp_path):
    path = tmp_path / "a.sock"
    with socket.socket(socket.AF_UNIX) as crashed:
        crashed.bind(str(path))
        crashed.listen()
    assert path.exists()
    sockets = listen_on([f"unix:{path}"])
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
    close_all(sockets)


def test_the_socket_of_a_running_server_is_kept(tmp_path):
    path = tmp_path / "a.sock"
    sockets = listen_on([f"unix:{path}"])
    with pytest.raises(TransportError, match=f"cannot listen on unix:{path}: address already"):
        listen_on([f"unix:{path}"])
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
    close_all(sockets)


def test_a_file_that_is_not_a_socket_is_kept(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    with pytest.raises(TransportError, match="there is a file that is not a socket"):
        listen_on([f"unix:{path}"])
    assert path.read_text() == "mine"


def test_the_socket_of_the_next_server_is_not_removed_by_the_last(tmp_path):
    path = tmp_path / "a.sock"
    last = listen_on([f"unix:{path}"])
    os.unlink(path)
    following = listen_on([f"unix:{path}"])
    close_all(last)
    assert path.exists()
    close_all(following)


def test_a_path_that_is_too_long_for_a_socket_is_named(tmp_path):
    with pytest.raises(TransportError, match="the path is too long for a Unix socket"):
        listen_on([f"unix:{tmp_path}/{'x' * 120}"])


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(TransportError, match=f"unix:{tmp_path}/no/a.sock: there is no such folder"):
        listen_on([f"unix:{tmp_path}/no/a.sock"])


# -- sockets that others have opened


def passed(names, *addresses, count=None):
    """Run a process that has sockets from descriptor 3 on, as systemd starts it."""
    made = [socket.create_server(("127.0.0.1", 0)) for _ in names]
    command = [sys.executable, "-c", PASSED, *addresses]
    for place, each in enumerate(made):
        os.dup2(each.fileno(), 100 + place)
    shell = " ".join(f"{3 + place}<&{100 + place}" for place in range(len(made)))
    env = {
        **os.environ,
        "LISTEN_FDS": str(len(made) if count is None else count),
        "LISTEN_FDNAMES": ":".join(names),
    }
    found = subprocess.run(
        ["bash", "-c", f'exec "$@" {shell}', "bash", *command],
        env=env,
        pass_fds=range(100, 100 + len(made)),
        capture_output=True,
        text=True,
        check=False,
    )
    ports = [each.getsockname() for each in made]
    for place, each in enumerate(made):
        os.close(100 + place)
        each.close()
    return ports, found


def test_the_sockets_of_systemd_are_served_and_its_variables_removed():
    ports, found = passed(["web", "other"], "systemd")
    assert found.stdout == f"{ports} [False, False]\n[]\n", found.stderr


def test_the_sockets_of_systemd_can_be_chosen_by_name():
    ports, found = passed(["web", "other"], "systemd:other")
    assert found.stdout == f"{ports[1:]} [False]\n[]\n", found.stderr
    _, found = passed(["web"], "systemd:none")
    assert "cannot listen on systemd:none: the sockets are called web" in found.stderr


def test_sockets_that_systemd_did_not_pass_on_are_an_error(monkeypatch):
    for variable in ("LISTEN_PID", "LISTEN_FDS"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(TransportError, match=r"systemd: LISTEN_FDS is not set; .* socket unit"):
        listen_on(["systemd"])
    monkeypatch.setenv("LISTEN_FDS", "1")
    monkeypatch.setenv("LISTEN_PID", "1")
    with pytest.raises(TransportError, match="systemd: LISTEN_PID is 1"):
        listen_on(["systemd"])
    monkeypatch.setenv("LISTEN_FDS", "0")
    monkeypatch.setenv("LISTEN_PID", str(os.getpid()))
    with pytest.raises(TransportError, match="systemd: LISTEN_FDS is 0"):
        listen_on(["systemd"])


def test_a_descriptor_is_served():
    with socket.create_server(("127.0.0.1", 0)) as made:
        number = os.dup(made.fileno())
        (found,) = listen_on([f"fd:{number}"])
        assert found.getsockname() == made.getsockname()
        assert found.proto == socket.IPPROTO_TCP
        close_all([found])


def test_a_descriptor_that_is_not_a_listening_socket_is_an_error(tmp_path):
    with open(tmp_path / "file", "w") as file, socket.socket() as idle:
        with pytest.raises(TransportError, match=r"cannot listen on fd:\d+: .*non-socket"):
            listen_on([f"fd:{file.fileno()}"])
        with pytest.raises(TransportError, match=r"descriptor \d+ is not a listening stream"):
            listen_on([f"fd:{idle.fileno()}"])
        assert idle.fileno() >= 0
    with pytest.raises(TransportError, match="fd:9999: bad file descriptor"):
        listen_on(["fd:9999"])
