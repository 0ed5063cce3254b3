"""Connection, HTTP/1.0, Upgrade, Expect, HEAD and pipelines: what follows a request."""

from support.http1_requests import (
    CANARY,
    END,
    GOOD,
    TE,
    USUAL,
    Cases,
    answered,
    chunked,
    get,
    head,
    note,
    refused,
    served,
    served_last,
    silent,
    sized,
)

CASES = Cases()
case = CASES.case

# -- Connection, HTTP/1.0, Upgrade, Expect, HEAD

case("Connection: close", sized(note(), b"Connection: close"), served_last(), "9.6")
case("Connection: Close, with a tab", sized(note(), b"Connection:\tClose\t"), served_last(), "9.6")
case(
    "Connection: keep-alive, close",
    sized(note(), b"Connection: keep-alive, close"),
    served_last(),
    "9.3; 9.6",
)
case(
    "Connection: close, keep-alive",
    sized(note(), b"Connection: close, keep-alive"),
    served_last(),
    "9.3; 9.6",
)
case(
    "Connection twice",
    sized(note(), b"Connection: keep-alive", b"Connection: close"),
    served_last(),
    "9.3; 9.6",
)
case(
    "Connection: keep-alive",
    sized(note(), b"Connection: keep-alive") + sized(note(2)),
    served(2),
    "9.3",
)
case(
    "Connection: closed",
    sized(note(), b"Connection: closed"),
    served(goes_on=None),
    "9.3: another option",
)
case(
    "close, then a request",
    sized(note(), b"Connection: close") + CANARY,
    served_last(),
    "9.6",
    "requests after close (http-garden, server 45)",
)
case("HTTP/1.0", sized(note(), first=b"POST /mcp HTTP/1.0"), served_last(), "9.3")
case(
    "HTTP/1.0 that stays",
    sized(note(), b"Connection: keep-alive", first=b"POST /mcp HTTP/1.0"),
    served(goes_on=None),
    "9.3",
)
case(
    "HTTP/1.0 without Host",
    get(version=b"HTTP/1.0").replace(USUAL[0] + b"\r\n", b""),
    answered(200, goes_on=False),
    "3.2: only HTTP/1.1 needs it",
)
for protocol in (b"websocket", b"h2c", b"HTTP/2.0", b"anything", b"TLS/1.0"):
    upgrade = (b"Connection: Upgrade", b"Upgrade: " + protocol)
    case(
        f"Upgrade to {protocol.decode()}",
        sized(note(), *upgrade) + CANARY,
        served_last(),
        "RFC 9110, 7.8",
    )
    case(
        f"Upgrade to {protocol.decode()} with chunks",
        chunked(note(), *upgrade) + CANARY,
        served_last(),
        "RFC 9110, 7.8",
    )
    case(
        f"Upgrade to {protocol.decode()} without a body",
        get(*upgrade) + CANARY,
        answered(200, goes_on=False),
        "RFC 9110, 7.8",
        "h2c smuggling (Bishop Fox, 2020)",
    )
    case(
        f"Upgrade to {protocol.decode()}, the body is a request",
        sized(CANARY, *upgrade),
        answered(400, goes_on=False),
        "RFC 9110, 7.8",
        "h2c smuggling (Bishop Fox, 2020)",
    )
case(
    "Upgrade with an unknown coding",
    head(*upgrade, b"Transfer-Encoding: gzip") + CANARY,
    refused(400, 501),
    "6.3, item 4",
    "llhttp leaves the coding of upgrades unchecked",
)
case(
    "Upgrade with length and coding",
    head(*upgrade, b"Content-Length: 5", TE) + END + CANARY,
    refused(),
    "6.3, item 3",
)
case("Upgrade with a bad chunk", head(*upgrade, TE) + b"ZZ\r\n" + CANARY, refused(), "7.1")
case(
    "Upgrade not named by Connection",
    sized(note(), b"Upgrade: h2c"),
    served(goes_on=None),
    "RFC 9110, 7.8: ignored",
)
case(
    "Connection: Upgrade, to nothing",
    sized(note(), b"Connection: Upgrade"),
    served(goes_on=None),
    "RFC 9110, 7.8",
)
EXPECT = b"Expect: 100-continue"
case("Expect", sized(note(), EXPECT), served(), "RFC 9110, 10.1.1")
case("Expect in capitals", sized(note(), b"EXPECT: 100-CONTINUE"), served(), "RFC 9110, 10.1.1")
case("Expect with chunks", chunked(note(), EXPECT), served(), "RFC 9110, 10.1.1")
case("Expect without a body", get(EXPECT), answered(200), "RFC 9110, 10.1.1")
case("Expect with length 0", sized(b"", EXPECT), answered(400), "RFC 9110, 10.1.1")
case(
    "Expect in HTTP/1.0",
    sized(note(), EXPECT, first=b"POST /mcp HTTP/1.0"),
    served_last(),
    "RFC 9110, 10.1.1: MUST ignore",
)
for value in (b"y 100-continue", b"100-continue, 100-continue", b"200-ok", b"", b"100-continue\t"):
    request = sized(note(), b"Expect: " + value) + sized(note(2))
    case(
        f"Expect: {value.decode()}",
        request,
        served(2),
        "RFC 9110, 10.1.1: 417 is a MAY",
        "Expect variants (Kettle, HTTP/1.1 Must Die, 2025)",
    )
case(
    "Expect, refused before the body",
    sized(CANARY, EXPECT, first=b"POST /nowhere HTTP/1.1"),
    answered(404, goes_on=None),
    "RFC 9110, 10.1.1",
    "0.CL through Expect (Kettle, HTTP/1.1 Must Die, 2025)",
)
case(
    "HEAD",
    head(first=b"HEAD /healthz HTTP/1.1", usual=USUAL[:1]),
    answered(200, 405),
    "RFC 9110, 9.3.2",
)
case(
    "HEAD of the endpoint",
    head(first=b"HEAD /mcp HTTP/1.1", usual=USUAL),
    answered(200, 400, 405, 406),
    "RFC 9110, 9.3.2",
)
case(
    "HEAD of nothing",
    head(first=b"HEAD /nowhere HTTP/1.1", usual=USUAL),
    answered(404),
    "RFC 9110, 9.3.2",
)

# -- pipelines

for count in (2, 3, 7, 31):
    data = b"".join(sized(note(number + 1)) for number in range(count))
    case(f"{count} requests at once", data, served(count), "9.3.2")
data = b"".join(sized(note(number + 1)) for number in range(40))
case(
    "40 requests at once", data, served(40, goes_on=None, fewer=True), "9.3.2: the server may close"
)
data = b"".join((sized if number % 2 else chunked)(note(number + 1)) for number in range(9))
case("9 requests at once, every other in chunks", data, served(9), "9.3.2")
case(
    "a good request, then nonsense", GOOD + b"nonsense\r\n\r\n" + CANARY, refused(after=1), "9.3.2"
)
case(
    "a good request, then CL.TE",
    GOOD + head(b"Content-Length: 5", TE) + END + CANARY,
    refused(after=1),
    "6.3, item 3",
)
case("a good request, then half of one", GOOD + GOOD[:70], silent(after=1), "8")
