"""Crashes, full disks, power cuts, cut connections and failing nodes."""
