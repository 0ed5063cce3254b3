"""The pure half of each transport: framing, no I/O."""
