"""A television that exists in memory alone; see `setup_async`."""
