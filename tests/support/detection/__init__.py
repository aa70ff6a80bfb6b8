"""Generated sensitive values and benign documents. They test the detection rules and do not depend on the rules."""
