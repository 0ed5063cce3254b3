"""Tools built with the library: check, test, watch, diagnose, install, compare, inspect."""
