"""The fleet file: read, its entries made ready to launch, and the user's consent to launch them."""

from accord_tools.fleet.file.entries import resolve_server
from accord_tools.fleet.file.reader import read_fleet
from accord_tools.fleet.file.trust import TrustStore, launch_digest

__all__ = ["TrustStore", "launch_digest", "read_fleet", "resolve_server"]
