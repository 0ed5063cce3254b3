"""When an earlier result may be reused: nothing that a server consists of has changed."""
