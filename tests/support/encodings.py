"""A secret in every usual encoding."""

import base64
import json
import re
from urllib.parse import quote, quote_plus


def in_base64(text, before=b""):
    return base64.b64encode(before + text.encode()).decode()


def encodings(token):
    """Return a text for each encoding in which a server may repeat a token."""
    return {
        "plain": token,
        "percent": quote(token, safe=""),
        "lower percent": re.sub("%..", lambda found: found[0].lower(), quote(token, safe="")),
        "plus": quote_plus(token),
        "all percent": "".join(f"%{each:02X}" for each in token.encode()),
        "JSON": json.dumps(token)[1:-1],
        "JSON in JSON": json.dumps(json.dumps(token)[1:-1])[1:-1],
        "JSON with slashes": json.dumps(token)[1:-1].replace("/", "\\/"),
        "base64": in_base64(token),
        "base64 of a header": in_base64(token, b"Bearer "),
        "base64 of two words": in_base64(token, b"user:"),
        "base64 of a line": in_base64(f"{token} and more", b"my "),
        "base64 for URLs": base64.urlsafe_b64encode(token.encode()).decode(),
        "hex": token.encode().hex(),
        "HEX": token.encode().hex().upper(),
    }


def assert_hidden(token, shown):
    """Make sure that no six characters of a token in a row are shown, in any encoding."""
    for name, text in encodings(token).items():
        core = text.rstrip("=")[3:-3]
        runs = {core[at : at + 10] for at in range(len(core) - 9)}
        found = [each for each in runs if each in shown]
        assert not found, f"{name}: {found[0]} of {text}"
