"""What the commands do: add, remove, list, sync."""
