"""MIME types guessed from names, and which of them are text."""

import doctest
from typing import Any

import pytest

from accord.server import media
from accord.server.media import Image, guess_mime_type, is_textual
from support.tables import cases


def test_the_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(media).failed == 0


@cases(
    ("uri", "mime_type"),
    [
        ("notes.md", "text/markdown"),
        ("file:///srv/data.json", "application/json"),
        ("file:///srv/data.JSON", "application/json"),
        ("file:///srv/data%2Ejson", "application/json"),
        ("config://app.json", "application/json"),
        ("https://example.com/a/b.css?v=1#top", "text/css"),
        ("https://example.json", None),
        ("HTTP://example.json", None),
        ("x://a/photo.png", "image/png"),
        ("x://a/photo.webp", "image/webp"),
        ("x://a/settings.yml", "application/yaml"),
        ("x://a/server.log", "text/plain"),
        ("x://a.json/plain", None),
        ("x://a/archive.unheard-of", None),
        ("x://a/.json", None),
        ("note://today", None),
        ("", None),
    ],
)
def test_the_ending_of_a_name_suggests_a_type(uri: str, mime_type: str | None) -> None:
    assert guess_mime_type(uri) == mime_type


@cases(
    "mime_type",
    [
        "text/plain",
        "TEXT/HTML; charset=utf-8",
        "application/json",
        "application/vnd.api+json",
        "application/yaml",
        "application/toml",
        "application/xml",
        "image/svg+xml",
        "application/javascript",
        "application/x-javascript",
        "application/sql",
        "application/jsonl",
    ],
)
def test_types_that_can_be_shown_are_text(mime_type: str) -> None:
    assert is_textual(mime_type)


@cases(
    "mime_type",
    ["image/png", "application/octet-stream", "application/pdf", "audio/wav", "text", "json", ""],
)
def test_all_other_types_are_not(mime_type: str) -> None:
    assert not is_textual(mime_type)


@cases(
    ("given", "named", "said"),
    [
        ((b"x", "image/png"), {}, r"Image\(data, 'image/png'\): write mime_type='image/png'"),
        (("cat.png",), {}, "data is bytes; for a file write path='cat.png'"),
        ((b"x",), {"format": "png"}, r"Image\(\) has no keyword 'format'; it has data, mime_type"),
        ((), {}, "Image takes either data or path"),
    ],
)
def test_a_picture_that_is_made_wrongly_says_how(given: Any, named: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        Image(*given, **named)
