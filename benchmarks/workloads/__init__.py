"""Workloads of agents on memory systems: six mixes of operations, with an oracle for their answers."""
