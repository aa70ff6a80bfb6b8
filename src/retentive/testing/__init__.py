"""Tools for your tests.

`retentive.testing.backend_suite` tests a backend that you write. `retentive.testing.scripted_claude` replaces the
Messages API in tests of your agent. Import these packages directly, because this package does not import them.
"""
