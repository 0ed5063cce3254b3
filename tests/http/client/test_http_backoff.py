import pytest

from accord.http.client.messages import Backoff


def test_delays_double_with_jitter_up_to_a_limit():
    backoff = Backoff(0.2)
    for failures in range(30):
        assert backoff.failures == failures
        full = min(0.2 * 2**failures, 30.0)
        assert full / 2 <= backoff.fail() <= full


def test_success_begins_anew():
    backoff = Backoff(0.2)
    for _ in range(5):
        backoff.fail()
    backoff.succeed()
    assert backoff.fail() <= 0.2


@pytest.mark.requirement("http.sse.client-honours-retry")
@pytest.mark.parametrize("asked", [0.2, 0.5, 60.0, 3_600.0])
def test_a_requested_delay_is_the_least_and_at_first_nearly_the_most(asked):
    backoff = Backoff(1.0)
    assert asked <= backoff.fail(asked) <= asked * 1.05
    for _ in range(10):
        assert backoff.fail(asked) >= asked


def test_the_longest_delay_can_be_chosen():
    backoff = Backoff(most=2.0)
    assert all(backoff.fail() <= 2.0 for _ in range(20))


@pytest.mark.parametrize("asked", [0.0, 0.001, 0.1])
def test_a_server_cannot_ask_for_a_flood_of_requests(asked):
    backoff = Backoff(1.0)
    for _ in range(20):
        backoff.succeed()
        assert 0.2 <= backoff.fail(asked) <= 0.21
    grown = [backoff.fail(asked) for _ in range(10)]
    assert grown[-1] >= 15.0


def test_an_absurd_delay_is_cut_to_an_hour():
    backoff = Backoff(1.0)
    for _ in range(20):
        assert 3_600.0 <= backoff.fail(999_999_999.0) <= 3_600.0 * 1.05
