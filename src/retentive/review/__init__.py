"""Review: changes by actors under review become proposals, which wait until a person accepts or refuses them."""
