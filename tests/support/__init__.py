"""Helpers of the tests: backends, servers, faults and models that several folders share."""
