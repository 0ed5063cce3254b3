"""The worker: a process that works on one server of a fleet and reports to its parent."""
