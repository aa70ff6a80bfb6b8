"""Features around the engine, tested through the library, the command line and the integrations."""
