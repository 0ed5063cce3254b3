"""Requests as bytes, each with the only outcomes that are right: what HTTP/1.1 asks of a server.

The sections are those of RFC 9112 where nothing else is said. `finding` names the published defect
of some server or proxy that a case stands for. Servers that were wrong here let a client smuggle a
request past whatever stands in front of them. So most cases carry a request that calls the tool
`canary`, where a mistaken server would look for the next request; that call must never happen.
"""

from support import http1_connections, http1_framing, http1_heads

CASES = [*http1_framing.CASES, *http1_heads.CASES, *http1_connections.CASES]
