"""The network between a client and a server, one step each: DNS, TCP and TLS."""

import asyncio
import os
import socket
import ssl
import time
from collections.abc import Sequence
from typing import Any, Final

from accord_tools.diagnosis.step import DoctorStep

_EXPIRES_SOON: Final = 14 * 86_400


async def resolve_host(host: str, port: int, seconds: float) -> tuple[DoctorStep, list[str]]:
    """Resolve a host name; return the step and the addresses."""
    asked = f"the addresses of {host}"
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(seconds):
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, TimeoutError) as error:
        change = "correct the host name, or the name server of this machine"
        came = shown_reason(error)
        failed = DoctorStep(name="dns", verdict="failed", asked=asked, came=came, change=change)
        return failed, []
    addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
    came = ", ".join(addresses[:4])
    return DoctorStep(name="dns", verdict="ok", asked=asked, came=came), addresses


async def open_port(addresses: Sequence[str], port: int, seconds: float) -> DoctorStep:
    """Connect to the first address that takes connections."""
    asked = f"a connection to port {port}"
    refused: list[str] = []
    for address in addresses:
        try:
            async with asyncio.timeout(seconds):
                _, writer = await asyncio.open_connection(address, port)
        except (OSError, TimeoutError) as error:
            refused.append(f"{address}: {shown_reason(error)}")
            continue
        writer.close()
        if not refused:
            came = f"connected to {address}"
            return DoctorStep(name="tcp", verdict="ok", asked=asked, came=came)
        change = "remove addresses where nothing listens: clients lose time on them"
        came = "; ".join(refused)[:300]
        return DoctorStep(name="tcp", verdict="warning", asked=asked, came=came, change=change)
    change = "start the server, open the port in the firewall, or correct the port"
    came = "; ".join(refused)[:300]
    return DoctorStep(name="tcp", verdict="failed", asked=asked, came=came, change=change)


async def check_tls(host: str, port: int, seconds: float) -> DoctorStep:
    """Make a TLS connection and look at the certificate."""
    asked = f"TLS with {host}"
    try:
        async with asyncio.timeout(seconds):
            _, writer = await asyncio.open_connection(host, port, ssl=ssl.create_default_context())
    except ssl.SSLCertVerificationError as error:
        change = f"serve a certificate that is valid for {host}, with its chain"
        came = error.verify_message
        return DoctorStep(name="tls", verdict="failed", asked=asked, came=came, change=change)
    except (OSError, TimeoutError) as error:
        change = "check the port: it may speak plain HTTP"
        came = shown_reason(error)
        return DoctorStep(name="tls", verdict="failed", asked=asked, came=came, change=change)
    tls: Any = writer.get_extra_info("ssl_object")
    ends = ssl.cert_time_to_seconds(tls.getpeercert()["notAfter"])
    writer.close()
    days = int((ends - time.time()) / 86_400)
    came = f"{tls.version()}, certificate valid for {days} days"
    if ends - time.time() < _EXPIRES_SOON:
        change = "renew it soon"
        return DoctorStep(name="tls", verdict="warning", asked=asked, came=came, change=change)
    return DoctorStep(name="tls", verdict="ok", asked=asked, came=came)


def shown_reason(error: BaseException) -> str:
    """Return the reason of an error of the network, in one short line."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    number = getattr(error, "errno", None)
    if isinstance(number, int) and number > 0:
        return os.strerror(number).lower()
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(text).strip().split("\n", 1)[0][:200]
