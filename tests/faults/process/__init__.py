"""Crashes, file system faults, power cuts and full disks that a memory store must survive."""
