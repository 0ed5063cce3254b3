"""The checker: judges recorded traffic against every requirement of its revision."""
