"""The settings of a store that several workers share."""

import pytest

from accord.errors import ConfigurationError
from accord.server import MemoryEventStore
from support.http_offer import offer
from support.tables import cases

KEY = "k" * 32


@cases(
    ("settings", "why"),
    [
        ({"store_keys": [KEY]}, "store_keys seals what is written to a store; name that too"),
        ({"store": "memory:", "store_keys": KEY}, "store_keys is one text, expected a list"),
        (
            {"store": "memory:", "events": MemoryEventStore()},
            "events and store both keep streams; leave one of them out",
        ),
        ({"lease": 0}, "lease is 0, expected more than 0"),
        ({"store_patience": -1}, "store_patience is -1, expected more than 0"),
        ({"retention": -1}, "retention is -1, expected more than 0"),
        ({"stream_entries": 0}, "stream_entries is 0, expected more than 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, why):
    with pytest.raises(ValueError, match=why):
        offer().asgi(**settings)


def test_a_text_for_no_keys_is_not_taken_for_a_key():
    assert offer().asgi(store="memory:", store_keys="none").options["store_keys"] == "none"


def test_a_url_that_names_no_store_is_refused_when_the_app_is_made():
    with pytest.raises(ConfigurationError, match="'ftp:' is not the URL of a store"):
        offer().asgi(store="ftp://user:secret@host")
    with pytest.raises(ConfigurationError, match="a text without a scheme"):
        offer().asgi(store="store.db")


def test_a_remote_store_without_keys_is_refused_and_the_error_says_how_to_make_one():
    with pytest.raises(ConfigurationError, match="make a key with") as caught:
        offer().asgi(store="redis://user:secret@127.0.0.1:1/0")
    assert "secret@" not in str(caught.value)
    offer().asgi(store="redis://user:secret@127.0.0.1:1/0", store_keys="none")
