"""Storage of memory stores: the contract, its implementations, and wrappers around them."""
