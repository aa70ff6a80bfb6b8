"""Review: changes of certain actors become proposals, which wait until a person accepts or refuses them."""
