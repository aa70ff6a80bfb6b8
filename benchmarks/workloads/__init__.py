"""Workloads of agents on retentive and on other memory systems."""
