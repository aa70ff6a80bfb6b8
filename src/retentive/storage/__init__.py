"""Storage of memory stores: the storage contract, its implementations (backends), and wrappers around backends."""
