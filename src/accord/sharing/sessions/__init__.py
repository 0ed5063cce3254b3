"""Sessions and streams of HTTP that any worker serves."""
