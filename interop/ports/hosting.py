"""Serves servers of one library, each below a path of its own, from one process.

python hosting.py accord
python hosting.py foreign FOLDER     the examples that originals.py has unpacked there
"""

import logging
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).parent
PORTS: Final = (
    "testing_demo",
    "parcels",
    "ledger",
    "session_state",
    "namespaces",
    "refund_desk",
    "weather",
    "lifespan",
    "smart_home",
)


def load(path: Path) -> Any:
    """Load a module whose name others have too."""
    spec = spec_from_file_location(f"{path.parent.name}_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def accord_apps() -> dict[str, Any]:
    """Return the ports."""
    return {name: import_module(name).server.asgi() for name in PORTS}


def foreign_apps(folder: Path) -> dict[str, Any]:
    """Return what they were ported from."""
    sys.path.insert(0, str(folder / "mcp/examples"))
    asgi_from = import_module("stories._hosting").asgi_from
    fastmcp = folder / "fastmcp/examples"
    sys.path.insert(0, str(fastmcp / "smart_home/src"))
    os.environ.update(
        HUE_BRIDGE_IP="127.0.0.1", HUE_BRIDGE_USERNAME="stub", FIRE_TV_HOST="127.0.0.1"
    )
    of_fastmcp = {
        "testing_demo": load(fastmcp / "testing_demo/server.py").mcp,
        "session_state": load(fastmcp / "persistent_state/server.py").server,
        "namespaces": load(fastmcp / "namespace_activation/server.py").server,
        "smart_home": import_module("smart_home.hub").hub_mcp,
        "parcels": load(HERE / "foreign/parcels.py").mcp,
        "ledger": load(HERE / "foreign/ledger.py").mcp,
    }
    of_mcp = {
        "refund_desk": import_module("stories.refund_desk.server").build_server(),
        "lifespan": import_module("stories.lifespan.server").build_server(),
        "weather": load(folder / "mcp/examples/mcpserver/weather_structured.py").mcp,
    }
    return {
        **{name: server.http_app(path="/mcp") for name, server in of_fastmcp.items()},
        **{name: asgi_from(server) for name, server in of_mcp.items()},
    }


def together(apps: Mapping[str, Any]) -> Any:
    """Return one app; those of frameworks are started with it."""
    from starlette.applications import Starlette
    from starlette.routing import Mount

    @asynccontextmanager
    async def start(_: Any) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for app in apps.values():
                if isinstance(app, Starlette):
                    await stack.enter_async_context(app.router.lifespan_context(app))
            yield

    routes = [Mount(f"/{name}", app) for name, app in apps.items()]
    return Starlette(routes=routes, lifespan=start)


def main() -> None:
    # Lights and a television that exist in memory alone stand in for packages with hardware.
    sys.path[:0] = [str(HERE / "stubs"), str(HERE.parent / "peers")]
    if sys.argv[1] == "accord":
        sys.path.insert(0, str(HERE))
    from serving import serve

    logging.basicConfig(format="%(name)s %(levelname)s %(message)s", stream=sys.stderr)
    logging.getLogger("parcels").setLevel("INFO")
    serve(together(accord_apps() if sys.argv[1] == "accord" else foreign_apps(Path(sys.argv[2]))))


if __name__ == "__main__":
    main()
