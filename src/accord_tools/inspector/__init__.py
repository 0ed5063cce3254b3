"""`accord inspect`: a page to explore and debug a server, with verdicts beside the messages."""
