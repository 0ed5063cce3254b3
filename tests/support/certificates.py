"""Certificates that are not trusted by default."""

import ssl
import subprocess
from pathlib import Path


def self_signed(folder: Path) -> tuple[Path, Path]:
    """Make a certificate for localhost, and its key."""
    key, file = folder / "key.pem", folder / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run(
        [*command, *names, "-keyout", key, "-out", file], check=True, capture_output=True
    )
    return file, key


def serving_with(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    """What a server with a certificate needs."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate)
    return context
