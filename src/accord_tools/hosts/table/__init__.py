"""Which hosts there are, and where each keeps its servers on a machine."""
