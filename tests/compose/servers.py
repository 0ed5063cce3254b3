"""Servers that child processes of the tests run."""

from accord import Server

crm = Server("crm")


@crm.tool
async def find(name: str) -> str:
    """Find a customer."""
    return f"found {name}"


hub = Server("hub")
hub.mount(crm, prefix="crm")
