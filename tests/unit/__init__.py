"""Single parts, each against the specification's own words."""
