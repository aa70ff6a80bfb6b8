"""The remote place: the library over HTTP, against `retentive serve` or Anthropic's hosted memory stores.

Everything but the two transports is without I/O: a method is a generator that yields requests and returns its result.
"""
