"""What a hostile or broken caller sends, and what is planted on disk."""
