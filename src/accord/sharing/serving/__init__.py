"""What a server shares with other workers: tasks, pages, limits, caches, changes."""
