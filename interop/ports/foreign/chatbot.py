"""Runs the chatbot of the official SDK with a model at another URL than the one it is written for.

python chatbot.py MAIN URL
"""

import runpy
import sys
from typing import Any

import httpx2

main, url = sys.argv[1:]
post = httpx2.Client.post


def redirect(self: httpx2.Client, _: str, **options: Any) -> httpx2.Response:
    return post(self, url, **options)


httpx2.Client.post = redirect  # type: ignore[assignment,method-assign]
runpy.run_path(main, run_name="__main__")
