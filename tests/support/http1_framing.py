"""Lengths, codings, chunks and trailers: where a request ends."""

from support.http1_requests import (
    CANARY,
    END,
    GOOD,
    MARK,
    OK,
    SAME,
    TE,
    Cases,
    Expected,
    answered,
    chunk,
    chunked,
    head,
    note,
    refused,
    served,
    silent,
    sized,
)

CASES = Cases()
case, framed = CASES.case, CASES.framed

# -- Content-Length


case("length", GOOD, served(), "6.2")
case("length, twice", GOOD + sized(note(2)), served(2), "9.3")
case("length 0", sized(b"") + GOOD, Expected((frozenset((400,)), OK), 1), "6.2")
case(
    "length with zeros in front",
    head(b"Content-Length: %09d" % len(note())) + note(),
    served(),
    "6.2; RFC 9110, 8.6",
    "parsed as octal (http-garden, server 32)",
)
case(
    "length with spaces around",
    head(b"Content-Length:   %d  " % len(note())) + note(),
    served(),
    "5; RFC 9110, 5.5",
)
case(
    "length with tabs around",
    head(b"Content-Length:\t%d\t" % len(note())) + note(),
    served(),
    "5; RFC 9110, 5.5",
)
case("length without a space", head(b"content-length:%d" % len(note())) + note(), served(), "5")
for label, text in {
    "plus": b"+5", "minus": b"-5", "minus 48": b"-48", "0x5": b"0x5", "5_0": b"5_0", "5.0": b"5.0",
    "5e1": b"5e1", "5Z": b"5Z", "5 5": b"5 5", "5, 5": b"5, 5", "5,6": b"5, 6", "5,": b"5,",
    "empty": b"", "comma": b",", "quoted": b'"5"', "NUL": b"5\0", "form feed": b"5\x0c",
    "NBSP": b"\xa05", "superscript": b"\xc2\xb2", "other digits": b"\xd9\xa5", "5;5": b"5;5",
    "carriage return": b"5\r5", "2**64 + 5": b"18446744073709551621", "10**30": b"1" + b"0" * 30,
    "words": b"five", "chunked": b"0 chunked",
}.items():  # fmt: skip
    framed(
        b"Content-Length: " + text,
        f"length is {label}",
        "6.3, item 5; RFC 9110, 8.6",
        "int() and strtoll() as parsers of lengths (http-garden, servers 10, 16, 29, 32)",
    )
framed(SAME + b"\r\n" + SAME, "length repeated", "6.3, item 5", "duplicate Content-Length (CL.CL)")
framed(
    b"Content-Length: 0\r\n" + SAME,
    "length repeated, the first is 0",
    "6.3, item 5",
    "the first counts here, the last there (http-garden, server 23)",
)
framed(
    SAME + b"\r\nContent-Length: 0",
    "length repeated, the last is 0",
    "6.3, item 5",
    "the first counts here, the last there (http-garden, server 33)",
)
framed(
    b"Content-Length:\r\n" + SAME,
    "length empty, then valid",
    "6.3, item 5",
    "an empty length counts as 0 (http-garden, server 42)",
)
framed(
    b"Content-Length: 5\r\n 5", "length folded", "5.2", "CVE-2024-27982: folded lengths in llhttp"
)
framed(
    b"Content-Length:\r\n %d" % len(CANARY),
    "length folded, first line empty",
    "5.2",
    "CVE-2024-27982: folded lengths in llhttp",
)
framed(
    b"X: y\r\n Content-Length: %d" % len(CANARY),
    "length after a space",
    "5.2",
    "CVE-2024-27982: space before Content-Length in llhttp",
)
framed(
    b"Content-Length : %d" % len(CANARY),
    "space before the colon of a length",
    "5.1",
    "CVE-2023-40518 (http-garden, server 3)",
)
framed(b"Content-Length\x85: 5", "length named with 0x85", "5.1", "http-garden, server 20")
framed(b"Content-Length 5", "length without a colon", "5", "http-garden, server 28")
framed(b"X: y\nContent-Length: 5", "length after a bare LF", "2.2", "CVE-2022-32214 in llhttp")
framed(b"X: y\rContent-Length: 5", "length after a bare CR", "2.2", "CVE-2023-30589 in llhttp")
case(
    "length larger than any message",
    head(b"Content-Length: 99999999") + CANARY,
    refused(413),
    "RFC 9110, 15.5.14",
)
case("length larger than what is sent", head(b"Content-Length: 9999") + b"{}", silent(), "6.3")
case(
    "length smaller than what is sent",
    head(b"Content-Length: 2") + b"{}" + b"garbage\r\n\r\n",
    Expected((frozenset((400,)),), 0, False, frozenset((400,)), False),
    "6.3, item 6",
)

# -- bodies that the method or the place does not expect (CL.0)

CL0 = "CL.0: a place that does not read bodies (Kettle, Browser-Powered Desync Attacks, 2022)"
IGNORED = (200, 204, 400, 404, 405)
for method in (b"GET", b"HEAD", b"DELETE", b"OPTIONS", b"TRACE", b"PUT", b"PATCH", b"POST"):
    for place in (b"/healthz", b"/mcp", b"/nowhere"):
        request = sized(CANARY, first=b"%b %b HTTP/1.1" % (method, place))
        if (method, place) != (b"POST", b"/mcp"):
            case(
                f"{method.decode()} {place.decode()} with a body",
                request,
                answered(*IGNORED, 406, 415, goes_on=None),
                "6.3; RFC 9110, 9.3.1",
                CL0,
            )
case("a body that is a request", sized(CANARY), answered(400), "6.3")
case(
    "a body of another type",
    sized(CANARY).replace(b"application/json\r\n", b"text/plain\r\n", 1),
    answered(200, 400, 415, goes_on=None),
    "6.3",
    CL0,
)
case(
    "a chunked body at a place that does not read it",
    chunked(CANARY, first=b"GET /healthz HTTP/1.1"),
    answered(200, goes_on=None),
    "6.3",
    CL0,
)

# -- Transfer-Encoding

case("chunks", chunked(note()), served(), "7.1")
case("chunks, then a length", chunked(note()) + sized(note(2)), served(2), "7.1")
single = [
    *(bytes([byte]) for byte in note().partition(MARK)[0]),
    MARK,
    *(bytes([byte]) for byte in note().partition(MARK)[2]),
]
case("chunks of one byte", head(TE) + b"".join(map(chunk, single)) + END, served(), "7.1")
case("chunk size in capitals", head(TE) + chunk(note(), b"%X" % len(note())) + END, served(), "7.1")
case(
    "chunk size with zeros in front",
    head(TE) + chunk(note(), b"%08x" % len(note())) + END,
    served(),
    "7.1",
)
case("last chunk of many zeros", head(TE) + chunk(note()) + b"0000\r\n\r\n", served(), "7.1")
case("coding in capitals", head(b"TRANSFER-ENCODING: CHUNKED") + chunk(note()) + END, served(), "7")
case(
    "coding after a tab", head(b"Transfer-Encoding:\tchunked") + chunk(note()) + END, served(), "5"
)
case(
    "coding before a space",
    head(b"Transfer-Encoding: chunked ") + chunk(note()) + END,
    served(),
    "5",
)
for label, line in {
    "name": b";a", "value": b";a=b", "several": b";a=b;c;d=e", "quoted": b';a="b c; \\"d\\""',
}.items():  # fmt: skip
    data = head(TE) + chunk(note(), b"%x" % len(note()) + line) + b"0" + line + b"\r\n\r\n"
    case(f"chunk extension, {label}", data, served(), "7.1.1")
for label, text in {
    "chunked, chunked": b"chunked, chunked", "chunked, identity": b"chunked, identity",
    "xchunked": b"xchunked", "chunkedx": b"chunkedx", "chunkedchunked": b"chunkedchunked",
    "chunked;q=1": b"chunked;q=1", "chunked with a comma in front": b",chunked",
    "chunked with a comma behind": b"chunked,", "vertical tab": b"\x0bchunked",
    "form feed": b"\x0cchunked", "NBSP": b"\xa0chunked", "NBSP around": b"\xa0chunked\xa0",
    "0xff around": b"\xffchunked\xff", "NUL": b"chunked\0", "quoted": b'"chunked"',
    "apostrophes": b"'chunked'", "colon": b": chunked", "semicolon": b";chunked",
    "a space within": b"chunk ed", "chunked identity": b"chunked identity", "LF": b"\nchunked",
    "CR": b"\rchunked", "CR behind": b"chunked\r", "folded": b"\r\n chunked",
    "folded behind": b"chunked\r\n abc", "Kelvin sign": b"chun\xe2\x84\xaaed",
}.items():  # fmt: skip
    framed(
        b"Transfer-Encoding: " + text,
        f"coding is {label}",
        "6.1; 6.3, item 4",
        "TE.TE: one server takes it for chunked, another does not (PortSwigger, http-garden)",
        400,
        501,
    )
for label, text in {
    "empty": b"", "identity": b"identity", "gzip": b"gzip", "chunked, gzip": b"chunked, gzip",
    "pigeons": b"pigeons", "chunk": b"chunk", "cow": b"cow",
}.items():  # fmt: skip
    framed(
        b"Transfer-Encoding: " + text,
        f"coding is {label}",
        "6.1; 6.3, item 4",
        "unknown codings taken for chunked, or for none (http-garden, server 44)",
        400,
        501,
    )
for label, text in {
    "identity, chunked": b"identity, chunked", "gzip, chunked": b"gzip, chunked",
}.items():  # fmt: skip
    framed(
        b"Transfer-Encoding: " + text,
        f"coding is {label}",
        "6.1: a coding that is not understood",
        "the coding before chunked is never undone",
        400,
        501,
    )
framed(TE + b"\r\n" + TE, "coding repeated", "6.1: not more than once", "http-garden, server 11")
framed(
    TE + b"\r\nTransfer-Encoding: identity", "coding chunked, then identity", "6.3, item 4", "TE.TE"
)
framed(TE + b"\r\nTransfer-Encoding: cow", "coding chunked, then cow", "6.3, item 4", "TE.TE")
framed(b"Transfer-Encoding: cow\r\n" + TE, "coding cow, then chunked", "6.1", "TE.TE", 400, 501)
framed(b"Transfer-Encoding:\r\n" + TE, "coding empty, then chunked", "6.1", "TE.TE", 400, 501)
framed(b"Transfer-Encoding : chunked", "space before the colon of a coding", "5.1", "TE.TE")
framed(b"Transfer-Encoding\t: chunked", "tab before the colon of a coding", "5.1", "TE.TE")
framed(b"X: y\r\n Transfer-Encoding: chunked", "coding after a space", "5.2", "TE.TE")
framed(
    b"X: y\nTransfer-Encoding: chunked", "coding after a bare LF", "2.2", "CVE-2022-32214 in llhttp"
)
framed(
    b"X:\nTransfer-Encoding: chunked",
    "coding after an empty value and LF",
    "2.2",
    "CVE-2022-35256 in llhttp",
)
framed(
    b"X:\rTransfer-Encoding: chunked",
    "coding after an empty value and CR",
    "2.2",
    "CVE-2023-30589 in llhttp",
)
framed(
    b"X: \rxTransfer-Encoding: chunked",
    "coding after a CR within a value",
    "2.2",
    "CVE-2023-30589 in llhttp",
)
framed(
    b"Transfer-\r\nEncoding: chunked",
    "coding whose name is on two lines",
    "5",
    "http-garden, server 37",
)
framed(b"Transfer\x00-Encoding: chunked", "coding whose name has a NUL", "5.1", "TE.TE")
for first, second, label in (
    (TE, b"Content-Length: %d", "TE.CL"),
    (b"Content-Length: %d", TE, "CL.TE"),
):
    for length in (0, 3, 5, 9_000):
        lines = b"\r\n".join((first, second)) % length
        case(
            f"{label}, length {length}",
            head(lines) + END + CANARY,
            refused(),
            "6.1; 6.3, item 3",
            f"{label} (Kettle, HTTP Desync Attacks, 2019)",
        )
case(
    "TE.CL, a request in a chunk",
    head(b"Content-Length: 4", TE) + chunk(CANARY) + END,
    refused(),
    "6.3, item 3",
    "TE.CL (Kettle, HTTP Desync Attacks, 2019)",
)
case(
    "coding not chunked, with a length",
    head(b"Transfer-Encoding: identity", SAME) + CANARY,
    refused(400, 501),
    "6.3, item 3",
    "TE.CL with a coding that is ignored",
)
case(
    "a name that only looks like a coding",
    sized(note(), b"Transfer_Encoding: chunked"),
    served(),
    "5.1",
    "underscores taken for hyphens",
)
case(
    "coding named by Connection",
    chunked(note(), b"Connection: Transfer-Encoding"),
    served(),
    "RFC 9110, 7.6.1",
    "hop-by-hop removal of framing",
)
case(
    "length named by Connection",
    sized(note(), b"Connection: Content-Length"),
    served(),
    "RFC 9110, 7.6.1",
    "hop-by-hop removal of framing",
)
case(
    "chunks in HTTP/1.0",
    chunked(CANARY, first=b"POST /mcp HTTP/1.0"),
    refused(),
    "6.1: faulty framing",
)
case(
    "chunks in HTTP/1.0 that stays",
    chunked(CANARY, b"Connection: keep-alive", first=b"POST /mcp HTTP/1.0"),
    refused(),
    "6.1: faulty framing",
    "TE.0 through proxies of HTTP/1.0",
)

# -- chunks

SIZE = b"%x" % len(CANARY)
for label, size in {
    "17 digits": b"10000000000000000", "17 digits that overflow": b"1000000000000000" + b"5",
    "more than all ones": b"f" * 17, "minus": b"-5", "minus 0": b"-0", "plus": b"+5", "0x": b"0x5",
    "underscore": b"0_2e", "letters": b"ZZ", "a letter behind": SIZE + b"Z", "empty": b"",
    "a space in front": b" " + SIZE, "a space behind": SIZE + b" ", "a tab behind": SIZE + b"\t",
    "a word behind": SIZE + b" word", "NUL": SIZE + b"\0", "a comma": b"0,5", "a point": b"5.",
    "quoted": b'"5"', "a CR behind": SIZE + b"\r", "CR CR semicolon": SIZE + b"\r\r;a",
    "a CR and a letter": b"5\rZ", "LF": SIZE + b"\n" + b"x",
    "LF in the extension": SIZE + b";\n" + b"x", "LF after the name": SIZE + b";a\n" + b"b",
    "LF in a value": SIZE + b";a=b\nc", "LF in quotes": SIZE + b';a="b\nc"',
    "CR in the extension": SIZE + b";a\rb", "CR CR in the extension": SIZE + b";a=b\r\rX",
    "NUL in the extension": SIZE + b";\0a", "CR in quotes": SIZE + b';a="\r"',
    "control byte in the extension": SIZE + b";a\x01", "quotes without end": SIZE + b';a="b',
}.items():  # fmt: skip
    case(
        f"chunk size, {label}",
        head(TE) + chunk(CANARY, size) + END,
        refused(400, 413),
        "7.1; 7.1.1",
        "http-garden, servers 1, 17, 22, 25, 31, 36; CVE-2025-22871, CVE-2025-43859, "
        "CVE-2025-55315; TERM.EXT, EXT.TERM, Funky Chunks, 2025)",
    )
case(
    "chunk line ended by LF",
    head(TE) + SIZE + b"\n" + CANARY + b"\r\n" + END,
    refused(),
    "7.1",
    "CVE-2025-22871",
)
case(
    "extension ended by LF",
    head(TE) + SIZE + b";\n" + CANARY + b"\r\n" + END,
    refused(),
    "7.1.1",
    "CVE-2025-55315",
)
case(
    "chunk data ended by LF",
    head(TE) + SIZE + b"\r\n" + CANARY + b"\n" + END,
    refused(),
    "7.1",
    "TERM.SPILL",
)
case(
    "chunk data ended by CR",
    head(TE) + SIZE + b"\r\n" + CANARY + b"\r" + END,
    refused(),
    "7.1",
    "TERM.SPILL",
)
case(
    "chunk data not ended",
    head(TE) + SIZE + b"\r\n" + CANARY + END,
    refused(),
    "7.1",
    "CVE-2025-43859 in h11",
)
case(
    "chunk data ended by two other bytes",
    head(TE) + SIZE + b"\r\n" + CANARY + b"XX" + END,
    refused(),
    "7.1",
    "CVE-2025-43859 in h11",
)
case(
    "chunk longer than its size",
    head(TE) + b"5\r\n" + CANARY + b"\r\n" + END,
    refused(),
    "7.1",
    "SPILL.TERM",
)
case("chunk shorter than its size", head(TE) + b"fff\r\n" + note() + b"\r\n" + END, silent(), "7.1")
case(
    "an empty line between chunks",
    head(TE) + chunk(b"{}") + b"\r\n" + END + CANARY,
    refused(),
    "7.1",
    "http-garden, transducer 17",
)
case(
    "chunk size of all ones",
    head(TE) + chunk(CANARY, b"f" * 16) + END,
    silent(),
    "7.1: large sizes",
)
case("no last chunk", head(TE) + chunk(note()), silent(), "8: incomplete")
case("no end of trailers", head(TE) + chunk(note()) + b"0\r\n", silent(), "8: incomplete")
case("half a trailer", head(TE) + chunk(note()) + b"0\r\nX: y\r\n", silent(), "8: incomplete")
case(
    "last chunk ended by LF",
    head(TE) + chunk(note()) + b"0\n\r\n" + CANARY,
    refused(),
    "7.1",
    "nginx-devel, 2024",
)
case("trailers ended by LF", head(TE) + chunk(note()) + b"0\r\n\n" + CANARY, refused(), "7.1.2")
case("trailers ended by CR", head(TE) + chunk(note()) + b"0\r\n\r" + CANARY, refused(), "7.1.2")
case(
    "trailers ended by two other bytes",
    head(TE) + chunk(note()) + b"0\r\nX:" + CANARY,
    refused(),
    "7.1.2",
    "http-garden, server 39",
)
case(
    "an invalid chunk, then a request",
    head(TE) + b"INVALID!!!\r\n" + CANARY,
    refused(),
    "7.1",
    "http-garden, server 47",
)

# -- trailers

for label, lines in {
    "one": b"X-Trailer: 1\r\n", "a hundred": b"a: b\r\n" * 100, "host": b"Host: evil.example\r\n",
    "session": b"Mcp-Session-Id: x\r\n", "authorization": b"Authorization: Bearer x\r\n",
    "an empty value": b"X:\r\n",
}.items():  # fmt: skip
    data = head(TE) + chunk(note()) + b"0\r\n" + lines + b"\r\n"
    case(f"trailers, {label}", data + sized(note(2)), served(2), "7.1.2; RFC 9110, 6.5.1")
for label, lines in {
    "length": b"Content-Length: %d\r\n" % len(CANARY), "coding": TE + b"\r\n",
    "upgrade": b"Upgrade: h2c\r\n",
}.items():  # fmt: skip
    # Dropped or refused: either way their bytes do not frame anything.
    data = head(TE) + chunk(b"{}") + b"0\r\n" + lines + b"\r\n"
    case(
        f"trailers, {label}",
        data,
        answered(400, goes_on=None),
        "6.5.1 of RFC 9110: never merged",
        "TE.0 and trailers that frame (Funky Chunks, 2025)",
    )
case(
    "trailers, connection",
    head(TE) + chunk(note()) + b"0\r\nConnection: close\r\n\r\n",
    served(goes_on=None),
    "6.5.1 of RFC 9110",
    "llhttp takes Connection from trailers",
)
for label, lines in {
    "too many": b"a: b\r\n" * 101, "no colon": b"nonsense\r\n",
    "space before the colon": b"X : y\r\n", "folded": b"X: y\r\n z\r\n", "NUL": b"X: \0\r\n",
    "bare LF": b"X: y\nZ: z\r\n", "bare CR": b"X: y\rZ: z\r\n",
    "a request": CANARY.partition(b"\r\n")[0] + b"\r\n",
}.items():  # fmt: skip
    data = head(TE) + chunk(note()) + b"0\r\n" + lines + b"\r\n"
    case(
        f"trailers, {label}",
        data,
        refused(400, 431),
        "7.1.2",
        "trailers that merge with the next request",
    )
