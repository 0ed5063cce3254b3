"""A proxy over HTTP to a command, made with FastMCP."""

import sys

from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy

port, server = sys.argv[1:]
proxy = create_proxy(StdioTransport(sys.executable, [server]))

if __name__ == "__main__":
    proxy.run(transport="http", port=int(port), show_banner=False)
