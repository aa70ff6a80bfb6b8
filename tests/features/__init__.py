"""Features around the engine, through the library, the command line and the integrations."""
