"""What a checker does to servers and clients, one file per area."""
