"""Gateway: gives any program that speaks the Messages API Claude's memory tool, by changing one URL."""
