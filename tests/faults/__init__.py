"""Crashes, faults of the file system, power cuts and full disks: what a memory store must survive."""
