"""A server that offers another one through a proxy of ours.

    python accord_proxy.py stdio COMMAND...
    python accord_proxy.py http COMMAND...

Over HTTP it prints its URL first.
"""

import sys

from accord import Server
from accord.compose import proxy

hub = Server("interop", version="1.2.3", instructions="Call anything.")
# As its own users would: whatever the environment has is for the other server, too.
hub.mount(proxy(sys.argv[2:], name="behind", stderr="inherit"))

if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        hub.run()
    else:
        from serving import serve

        serve(hub.asgi(grace=0))
