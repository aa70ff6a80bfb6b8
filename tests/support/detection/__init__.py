"""Generated sensitive values and benign documents: the yardstick of the detection rules, independent of them."""
