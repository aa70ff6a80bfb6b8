"""Where memories rest: the contract and its implementations."""
