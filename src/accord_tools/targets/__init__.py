"""What TARGET means in every command: servers of hosts, files, packages and fleets."""
