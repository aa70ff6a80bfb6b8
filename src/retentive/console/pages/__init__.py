"""Pages of the console, by the objects they show."""
