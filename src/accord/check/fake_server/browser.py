"""A browser for clients that want one: it fetches the page and follows where that leads.

Put into the variable BROWSER, which Python, xdg-open and many programs heed. Nothing but the
standard library is imported.
"""

import sys
import urllib.request

_PATIENCE = 10


def main() -> None:
    """Fetch the URL named in the arguments, as a person would who agrees to everything."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    if len(sys.argv) > 1 and sys.argv[-1].startswith(("http://127.0.0.1", "http://localhost")):
        opener.open(sys.argv[-1], timeout=_PATIENCE).read()


if __name__ == "__main__":
    main()
