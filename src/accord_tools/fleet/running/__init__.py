"""Runs workers side by side, and ends every process that they or their servers leave."""
