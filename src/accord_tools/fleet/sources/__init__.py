"""Where the servers of a fleet come from: the repository, hosts, registries and other files."""
