"""Recording of concurrent histories, and the search for an order that explains them."""
