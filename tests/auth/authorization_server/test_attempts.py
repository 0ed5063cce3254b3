"""Limits on guessing."""

from accord.auth.authorization_server.secrets import Attempts


def test_the_limit_is_reached_after_so_many_attempts_within_the_window():
    attempts = Attempts(3, 60.0)
    for now in (0.0, 10.0, 20.0):
        assert attempts.reserve("a", now) == 0.0
    assert attempts.reserve("a", 20.0) == 40.0
    assert attempts.reserve("b", 20.0) == 0.0
    assert attempts.reserve("a", 60.0) == 0.0
    assert attempts.reserve("a", 60.0) == 10.0


def test_an_attempt_that_succeeds_is_taken_back():
    attempts = Attempts(1, 60.0)
    attempts.release("a", 0.0)
    for _ in range(3):
        assert attempts.reserve("a", 0.0) == 0.0
        attempts.release("a", 0.0)
    assert attempts.reserve("a", 0.0) == 0.0
    attempts.release("a", 1.0)
    assert attempts.reserve("a", 0.0) == 60.0


def test_a_success_begins_anew():
    attempts = Attempts(1, 60.0)
    attempts.reserve("a", 0.0)
    attempts.forget("a")
    assert attempts.reserve("a", 0.0) == 0.0


def test_remembered_keys_are_bounded():
    attempts = Attempts(1, 60.0)
    for number in range(10_001):
        attempts.reserve(str(number), 0.0)
    assert attempts.reserve("10000", 0.0) > 0.0
    assert attempts.reserve("0", 0.0) == 0.0
