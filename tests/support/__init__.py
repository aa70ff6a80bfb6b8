"""Test code that several folders share: backends, servers, faults and models."""
