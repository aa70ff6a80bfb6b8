"""Clusters with failing nodes during writes: no acknowledged change is lost, and the clients continue."""
