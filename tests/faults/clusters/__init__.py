"""Clusters whose nodes fail during writes. No acknowledged change is lost, and the clients continue to work."""
