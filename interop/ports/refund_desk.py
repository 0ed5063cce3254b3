"""An amount that no caller can set, and questions on the way to it. Original: the story
"refund_desk" of the official SDK.
"""

from dataclasses import dataclass
from typing import Annotated, TypeAlias

from accord import Context, Depends, Server, ToolError
from accord.errors import ElicitationRefused

server = Server("refund-desk")


@dataclass(frozen=True)
class Item:
    """One line of an order."""

    sku: str
    cents: int
    physical: bool


Items: TypeAlias = list[Item]
ORDERS: dict[str, Items] = {
    "ORD-7001": [Item("ebook-fieldnotes", 1500, physical=False)],
    "ORD-7002": [
        Item("enamel-mug", 1800, physical=True),
        Item("canvas-tote", 2400, physical=True),
        Item("sticker-pack", 600, physical=False),
    ],
}


@dataclass
class Scope:
    """What to refund: everything, or one item."""

    full: bool
    sku: str = ""


@dataclass
class Restock:
    """Whether goods come back."""

    restock: bool


@dataclass
class Receipt:
    """What was done."""

    order_id: str
    refunded_cents: int
    restocked: bool
    reason: str


async def chosen_items(order_id: str, ctx: Context) -> Items:
    """Return the items to refund; where there are several, the user chooses."""
    if (items := ORDERS.get(order_id)) is None:
        raise ToolError(f"unknown order {order_id!r}")
    if len(items) == 1:
        return items
    names = ", ".join(item.sku for item in items)
    scope = await ctx.elicit(f"{order_id}: all of it, or which of {names}?", Scope)
    found = [item for item in items if scope.full or item.sku == scope.sku]
    if not found:
        raise ToolError(f"order has no item {scope.sku!r}")
    return found


Chosen: TypeAlias = Annotated[Items, Depends(chosen_items)]


async def comes_back(items: Chosen, ctx: Context) -> bool:
    """Ask whether goods come back; without an answer they do not."""
    goods = ", ".join(item.sku for item in items if item.physical)
    try:
        return bool(goods) and (await ctx.elicit(f"Do {goods} come back?", Restock)).restock
    except ElicitationRefused:
        return False


@server.tool
def refund_order(
    order_id: str, reason: str, items: Chosen, restocked: Annotated[bool, Depends(comes_back)]
) -> Receipt:
    """Refund an order; the record of it says how much."""
    return Receipt(order_id, sum(item.cents for item in items), restocked, reason)


if __name__ == "__main__":
    server.run()
