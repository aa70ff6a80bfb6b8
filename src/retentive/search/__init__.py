"""Full-text search over the memories of a store."""
