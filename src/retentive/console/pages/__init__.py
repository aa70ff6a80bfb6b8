"""Pages of the console. Each module has the pages for one kind of object."""
