"""Tests of servers: made from what they declare, and from cases that their authors write."""

from accord.check.contract.running import ContractBroken, check_contract

__all__ = ["ContractBroken", "check_contract"]
