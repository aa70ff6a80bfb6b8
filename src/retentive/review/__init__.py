"""Review: changes of chosen actors wait as proposals until a person accepts or refuses them."""
