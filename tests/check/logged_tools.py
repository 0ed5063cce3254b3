"""A server whose tools do nothing but write their name into a log, one line per call.

Run as `accord run logged_tools.py`. The variable TOOLS has the tools as JSON, by name with their
annotations; the variable LOG names the file.
"""

import json
import os

from accord import Server

server = Server("logged")


def register(name, annotations):
    def tool(text: str = "") -> str:
        with open(os.environ["LOG"], "a") as log:
            log.write(f"{name}\n")
        return "done"

    server.tool(name=name, description=f"Log {name}.", annotations=annotations)(tool)


for name, annotations in json.loads(os.environ["TOOLS"]).items():
    register(name, annotations)
