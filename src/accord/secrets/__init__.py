"""What is secret, and what stands in its place: `masked-1`, `masked-2`, and so on."""
