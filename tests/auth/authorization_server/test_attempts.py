"""Limits on guessing."""

from accord.auth.authorization_server.attempts import Attempts


def test_so_many_failures_within_the_window_make_one_wait():
    attempts = Attempts(3, 60.0)
    for now in (0.0, 10.0, 20.0):
        assert attempts.wait("a", now) == 0.0
        attempts.failed("a", now)
    assert attempts.wait("a", 20.0) == 40.0
    assert attempts.wait("b", 20.0) == 0.0
    assert attempts.wait("a", 60.0) == 0.0


def test_a_success_begins_anew():
    attempts = Attempts(1, 60.0)
    attempts.failed("a", 0.0)
    attempts.forget("a")
    assert attempts.wait("a", 0.0) == 0.0


def test_what_is_remembered_is_bounded():
    attempts = Attempts(1, 60.0)
    for number in range(10_001):
        attempts.failed(str(number), 0.0)
    assert attempts.wait("0", 0.0) == 0.0
    assert attempts.wait("10000", 0.0) > 0.0
