"""What the original and its port use of the package `androidtv`."""

from typing import Any


class Television:
    available = False
    device_properties = {"manufacturer": "Amazon", "model": "Stub"}  # noqa: RUF012  # as there
    installed_apps = ["com.example.films", "com.example.music"]  # noqa: RUF012

    def __init__(self) -> None:
        self._app = "home"
        self._attempts = 0

    async def update(self, **_: object) -> tuple[str, str, list[str], None]:
        return "idle", self._app, [self._app], None

    async def home(self) -> None:
        self._app = "home"

    async def launch_app(self, app: str) -> None:
        self._app = app

    async def adb_shell(self, command: str) -> None:
        self._app = command.split("watch?v=")[-1].split()[0]

    async def adb_connect(self, **_: object) -> bool:
        """Wake at the second attempt."""
        self._attempts += 1
        self.available = self._attempts > 1
        return self.available

    async def adb_close(self) -> None:
        self.available = False


async def setup(**_: Any) -> Television:
    return Television()
