"""Commands that work wherever a host runs, and the environment that a host gives them."""
