"""Tools, resources and prompts in their simplest form. Original: testing_demo of FastMCP."""

from accord import Server

server = Server("Testing Demo")


@server.tool
def add(a: int, b: int) -> int:
    """Return the sum of two integers."""
    return a + b


@server.tool
def greet(name: str, greeting: str = "Hello") -> str:
    """Greet a person, in other words if you like."""
    return f"{greeting}, {name}!"


@server.tool
async def async_multiply(x: float, y: float) -> float:
    """Return the product of two numbers."""
    return x * y


@server.resource("demo://info")
def server_info() -> str:
    """Says which server this is."""
    return "This is the FastMCP Testing Demo server"


@server.resource("demo://greeting/{name}")
def greeting_resource(name: str) -> str:
    """A welcome for one person."""
    return f"Welcome to FastMCP, {name}!"


@server.prompt
def hello(name: str = "World") -> str:
    """Ask for a friendly hello."""
    return f"Say hello to {name} in a friendly way."


DEPTHS = {
    "simple": "Explain {} in simple terms for beginners.",
    "detailed": "Provide a detailed, technical explanation of {}.",
}


@server.prompt
def explain(topic: str, detail_level: str = "medium") -> str:
    """Ask for an explanation, in the depth that is wanted."""
    return DEPTHS.get(detail_level, "Explain {} with moderate technical detail.").format(topic)
