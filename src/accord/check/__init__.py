"""The former place of the checker, which is in the package accord_tools now."""
