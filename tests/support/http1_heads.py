"""Header lines, request lines and Host: what a request asks for."""

from support.http1_requests import (
    CANARY,
    FORBIDDEN,
    GOOD,
    SAME,
    USUAL,
    Cases,
    answered,
    head,
    message,
    note,
    refused,
    served,
    silent,
    sized,
)

CASES = Cases()
case = CASES.case

# -- header lines

case("a header with an empty value", sized(note(), b"X:"), served(), "5")
case("a header with bytes above 0x80", sized(note(), b"X: \xff\xfe\xe9"), served(), "RFC 9110, 5.5")
case("a header with a tab", sized(note(), b"X: a\tb"), served(), "RFC 9110, 5.5")
case(
    "a name of all bytes of a token",
    sized(note(), b"!#$%&'*+-.^_`|~09azAZ: y"),
    served(),
    "RFC 9110, 5.6.2",
)
case(
    "two hundred headers",
    sized(note(), *(b"a%d: b" % n for n in range(196))),
    served(),
    "5.4 of RFC 9110",
)
case(
    "300 headers", sized(note(), *(b"a%d: b" % n for n in range(300))), refused(431), "RFC 6585, 5"
)
case(
    "6,000 headers",
    sized(note(), *(b"a%d: b" % n for n in range(6_000))),
    refused(431),
    "RFC 6585, 5",
)
case("a header of 30 KB", sized(note(), b"X: " + b"y" * 30_000), served(), "RFC 9110, 5.4")
case("a header of 70 KB", sized(note(), b"X: " + b"y" * 70_000), refused(431), "RFC 6585, 5")
case("a name of 70 KB", sized(note(), b"x" * 70_000 + b": y"), refused(431), "RFC 6585, 5")
for byte in b'\0\x01\x0b\x0c\x1f "(),/;<=>?@[\\]{}\x7f\x80\xa0\xff':
    case(
        f"a name with {bytes([byte])!r}",
        sized(CANARY, b"a" + bytes([byte]) + b"b: y"),
        refused(),
        "5.1",
        "http-garden, servers 8, 14, 20",
    )
for byte in b"\0\x01\x0b\x0c\x1f\x7f\r\n":
    case(
        f"a value with {bytes([byte])!r}",
        sized(CANARY, b"X: a" + bytes([byte]) + b"b"),
        refused(),
        "RFC 9110, 5.5",
        "http-garden, servers 2, 13, 34, 35, 43",
    )
for label, line in {
    "no name": b": y", "no name, no value": b":", "no colon": b"nonsense", "folded": b"X: y\r\n z",
    "folded with a tab": b"X: y\r\n\tz", "space before the colon": b"X : y",
    "tab before the colon": b"X\t: y", "CR, then a letter": b"\rZGET /evil: HTTP/1.1",
    "an empty fold": b"X: y\r\n \r\nZ: z",
}.items():  # fmt: skip
    case(
        f"a header line, {label}",
        sized(CANARY, line),
        refused(),
        "5; 5.1; 5.2",
        "http-garden, servers 3, 18, 27, 30",
    )
for label, line in {"a space": b" ", "a tab": b"\t"}.items():
    first = b"POST /mcp HTTP/1.1\r\n" + line + b"X: y"
    case(
        f"the first header after {label}",
        sized(CANARY, first=first),
        refused(),
        "2.2",
        "http-garden, server 4",
    )
case(
    "lines ended by LF",
    GOOD.replace(b"\r\n", b"\n"),
    refused(),
    "2.2: MAY, and no proxy agrees",
    "http-garden, transducer 16",
)
case("lines ended by CR", GOOD.replace(b"\r\n", b"\r"), refused(), "2.2")
case("a head ended by LF LF", GOOD.replace(b"\r\n\r\n", b"\n\n"), refused(), "2.2")
case("a head ended by CRLF LF", GOOD.replace(b"\r\n\r\n", b"\r\n\n"), refused(), "2.2")

# -- request lines


def asked(first: bytes) -> bytes:
    return sized(FORBIDDEN, first=first)


for label, first in {
    "no version": b"POST /mcp", "HTTP/0.9": b"POST /mcp HTTP/0.9",
    "HTTP/1.2": b"POST /mcp HTTP/1.2", "HTTP/1.9": b"POST /mcp HTTP/1.9",
    "HTTP/2.0": b"POST /mcp HTTP/2.0", "HTTP/3.0": b"POST /mcp HTTP/3.0",
    "HTTP/2": b"POST /mcp HTTP/2", "HTTP/1.10": b"POST /mcp HTTP/1.10",
    "HTTP/1.32": b"POST /mcp HTTP/1.32", "HTTP/01.1": b"POST /mcp HTTP/01.1",
    "HTTP/1": b"POST /mcp HTTP/1", "HTTP/": b"POST /mcp HTTP/", "http/1.1": b"POST /mcp http/1.1",
    "HTTP/1,1": b"POST /mcp HTTP/1,1", "HTTPS/1.1": b"POST /mcp HTTPS/1.1",
    "HTTP/4294967297.1": b"POST /mcp HTTP/4294967297.1", "HTTP/1. 1": b"POST /mcp HTTP/1. 1",
    "HTTP/CR CR 1.1": b"POST /mcp HTTP/\r\r1.1", "ICE/1.0": b"SOURCE /mcp ICE/1.0",
    "RTSP/1.0": b"PLAY /mcp RTSP/1.0", "a space behind": b"POST /mcp HTTP/1.1 ",
    "a word behind": b"POST /mcp HTTP/1.1 x", "a tab": b"POST\t/mcp HTTP/1.1",
    "a tab before the version": b"POST /mcp\tHTTP/1.1",
    "LF before the version": b"POST /mcp\nHTTP/1.1", "LF after the target": b"POST /mcp\nX: y",
    "a space in front": b" POST /mcp HTTP/1.1", "no target": b"POST HTTP/1.1",
    "only a method": b"POST", "only spaces": b"   ",
    "a space in the target": b"POST /m cp HTTP/1.1", "NUL in the target": b"POST /mcp\0 HTTP/1.1",
    "CR in the target": b"POST /m\rcp HTTP/1.1", "DEL in the target": b"POST /mcp\x7f HTTP/1.1",
    "a control byte in the target": b"POST /mcp\x01 HTTP/1.1",
    "UTF-8 in the target": b"POST /\xc3\xa9 HTTP/1.1",
    "a target without a slash": b"POST mcp HTTP/1.1", "lower-case method": b"post /mcp HTTP/1.1",
    "mixed-case method": b"Post /mcp HTTP/1.1", "unknown method": b"FROBNICATE /mcp HTTP/1.1",
    "a longer method": b"POSTX /mcp HTTP/1.1",
    "a method with odd bytes": b'P=":<>(O),[S];?T" /mcp HTTP/1.1',
    "a method of one NUL": b"\0 /mcp HTTP/1.1", "a colon after the method": b"POST: /mcp HTTP/1.1",
    "a response": b"HTTP/1.1 200 OK", "RTSP method": b"ANNOUNCE /mcp HTTP/1.1",
    "authority form": b"POST localhost:80 HTTP/1.1", "CONNECT": b"CONNECT localhost:80 HTTP/1.1",
    "CONNECT to a path": b"CONNECT /mcp HTTP/1.1", "preface of HTTP/2": b"PRI * HTTP/2.0",
}.items():  # fmt: skip
    case(
        f"request line, {label}",
        asked(first),
        refused(400, 405, 501, 505),
        "3; 2.3; RFC 9110, 9.1",
        "taken by their longest valid part (http-garden, servers 5, 6, 7, 9, 15, 24, 40)",
    )
for label, first in {
    "two spaces": b"POST  /mcp HTTP/1.1", "two spaces before the version": b"POST /mcp  HTTP/1.1",
    "SOURCE": b"SOURCE /mcp HTTP/1.1", "asterisk": b"POST * HTTP/1.1",
}.items():  # fmt: skip
    case(
        f"request line, {label}",
        sized(CANARY, first=first),
        answered(400, 404, 405, goes_on=None),
        "3: MAY split at any whitespace",
    )
case(
    "HTTP/0.9",
    b"GET /healthz\r\n" + CANARY,
    refused(400, 505),
    "3; HTTP/0.9 is not supported",
    "llhttp 877",
)
case("HTTP/0.9 with LF", b"GET /healthz\n" + CANARY, refused(400, 505), "3", "llhttp 877")
case(
    "HTTP/0.9 with headers",
    b"POST /mcp\nHost: localhost\r\n" + SAME + b"\r\n\r\n" + CANARY,
    refused(400, 505),
    "3",
    "llhttp 877",
)
case(
    "the preface of HTTP/2",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0" + CANARY,
    refused(400, 505),
    "RFC 9113, 3.4",
)
case("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + CANARY, refused(), "3")
case("SSH", b"SSH-2.0-OpenSSH_9.9\r\n" + CANARY, refused(), "3")
case("JSON without HTTP", message("canary") + b"\n", refused(), "3")
case("an empty line first", b"\r\n" + GOOD, served(), "2.2: SHOULD ignore at least one")
case("empty lines first", b"\r\n" * 5 + GOOD, served(), "2.2")
case("an empty line between requests", GOOD + b"\r\n" + sized(note(2)), served(2), "2.2")
case("only empty lines", b"\r\n" * 5, silent(), "2.2")
case("nothing", b"", silent(), "9.6")
case("half a request line", b"POST /mc", silent(), "8: incomplete")
case("half a head", GOOD[:60], silent(), "8: incomplete")
case(
    "a target of 70 KB",
    sized(CANARY, first=b"POST /" + b"a" * 70_000 + b" HTTP/1.1"),
    refused(414, 431),
    "3: 414",
)
case(
    "a query of 70 KB",
    sized(CANARY, first=b"POST /mcp?" + b"a" * 70_000 + b" HTTP/1.1"),
    refused(414, 431),
    "3: 414",
)
case(
    "a query of 8,000 bytes",
    sized(note(), first=b"POST /mcp?" + b"a" * 7_980 + b" HTTP/1.1"),
    served(),
    "3: 8,000 bytes",
)
case(
    "a method of 70 KB", b"A" * 70_000 + b" /mcp HTTP/1.1\r\n" + CANARY, refused(400, 431, 501), "3"
)
case(
    "a target with a query", sized(note(), first=b"POST /mcp?a=b&c=%20 HTTP/1.1"), served(), "3.2.1"
)
case(
    "a target with a fragment",
    sized(CANARY, first=b"POST /mcp#x HTTP/1.1"),
    answered(400, 404, goes_on=None),
    "3.2.1",
)
case(
    "a target with dots",
    sized(CANARY, first=b"POST /../mcp HTTP/1.1"),
    answered(400, 404, goes_on=None),
    "3.2.1",
)
case(
    "a target with an encoded NUL",
    sized(CANARY, first=b"POST /mcp%00 HTTP/1.1"),
    answered(400, 404, goes_on=None),
    "3.2.1",
)
case(
    "a target with half an escape",
    sized(CANARY, first=b"POST /mcp% HTTP/1.1"),
    answered(400, 404, goes_on=None),
    "3.2.1",
)
case(
    "a target of two slashes",
    sized(CANARY, first=b"POST //mcp HTTP/1.1"),
    answered(400, 404, goes_on=None),
    "3.2.1",
)
case(
    "absolute form",
    sized(note(), first=b"POST http://localhost/mcp HTTP/1.1"),
    served(),
    "3.2.2: MUST accept",
)
case(
    "absolute form with a port",
    sized(
        note(),
        first=b"POST http://localhost:80/mcp?x HTTP/1.1",
        usual=(b"Host: localhost:80", *USUAL[1:]),
    ),
    served(),
    "3.2.2",
)
case(
    "absolute form in capitals",
    sized(note(), first=b"POST HTTP://LOCALHOST/mcp HTTP/1.1"),
    served(),
    "3.2.2",
)
case(
    "absolute form of another host",
    sized(FORBIDDEN, first=b"POST http://evil.example/mcp HTTP/1.1"),
    answered(400, 403, 421, goes_on=None),
    "3.2.2: the target counts, not Host",
    "routing by Host against the target (Kettle, Cracking the Lens, 2017)",
)
case(
    "absolute form against another Host",
    sized(
        FORBIDDEN,
        first=b"POST http://localhost/mcp HTTP/1.1",
        usual=(b"Host: evil.example", *USUAL[1:]),
    ),
    answered(400, 403, 421, goes_on=None),
    "3.2.2; 7.4 of RFC 9110",
)
case(
    "absolute form with a user",
    sized(FORBIDDEN, first=b"POST http://localhost@evil.example/mcp HTTP/1.1"),
    answered(400, 403, 421, goes_on=None),
    "RFC 9110, 4.2.4",
)
case(
    "absolute form without a host",
    sized(FORBIDDEN, first=b"POST http:///mcp HTTP/1.1"),
    answered(400, 403, 421, goes_on=None),
    "RFC 9110, 4.2.1",
)
case(
    "absolute form of another scheme",
    sized(FORBIDDEN, first=b"POST ftp://localhost/mcp HTTP/1.1"),
    answered(400, 403, 404, 421, goes_on=None),
    "3.2.2; RFC 9110, 7.4",
)
case(
    "OPTIONS *",
    head(first=b"OPTIONS * HTTP/1.1", usual=USUAL[:1]),
    answered(200, 204, 404, 405),
    "3.2.4; RFC 9110, 9.3.7",
)
case(
    "TRACE",
    head(b"X-Secret: s", first=b"TRACE /mcp HTTP/1.1", usual=USUAL[:1]),
    answered(405),
    "RFC 9110, 9.3.8",
    "cross-site tracing",
)
case(
    "a method of WebDAV",
    head(first=b"PROPFIND /mcp HTTP/1.1", usual=USUAL[:1]),
    answered(405, 501),
    "RFC 9110, 9.1",
)
case(
    "QUERY",
    head(first=b"QUERY /mcp HTTP/1.1", usual=USUAL[:1]),
    answered(400, 405, 501, goes_on=None),
    "RFC 9110, 9.1",
)

# -- Host

REST = USUAL[1:]
case(
    "no Host",
    sized(FORBIDDEN, usual=REST),
    answered(400, goes_on=None),
    "3.2: MUST respond with 400",
)
for label, lines in {
    "Host twice": (USUAL[0], USUAL[0]), "two Hosts": (USUAL[0], b"Host: evil.example"),
    "two Hosts, the other first": (b"Host: evil.example", USUAL[0]),
}.items():  # fmt: skip
    case(
        label,
        sized(FORBIDDEN, usual=(*lines, *REST)),
        answered(400, goes_on=None),
        "3.2: MUST respond with 400",
        "Host header attacks",
    )
for label, value in {
    "empty": b"", "a list": b"localhost, evil.example", "a user": b"localhost@evil.example",
    "a space": b"local host", "a path": b"localhost/evil", "a scheme": b"http://localhost",
    "a word as port": b"localhost:x", "a port too large": b"localhost:99999",
    "a minus as port": b"localhost:-1", "another": b"evil.example", "a query": b"localhost?evil",
    "a fragment": b"localhost#evil", "a backslash": b"localhost\\evil",
    "brackets without end": b"[::1", "a point behind": b"localhost.evil",
    "two colons": b"localhost:80:80",
}.items():  # fmt: skip
    case(
        f"Host is {label}",
        sized(FORBIDDEN, usual=(b"Host: " + value, *REST)),
        answered(400, 403, 421, goes_on=None),
        "3.2; RFC 9110, 7.2",
        "Host header attacks, DNS rebinding",
    )
