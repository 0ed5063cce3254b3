"""Authorization step by step: each request and answer, what the specification says, what to do."""
