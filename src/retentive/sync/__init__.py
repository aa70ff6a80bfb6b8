"""Two-way synchronisation of a directory of text files with a memory store.

`sync_once` runs rounds until both sides are equal but for what it reports. A round scans the directory (`folder`),
lists the memories, plans (`plan`, a pure function of both sides and of the last synchronised state) and applies
(`apply`). `watch` repeats it. Nothing depends on the saved state for safety: it can be lost, or be older than both
sides.
"""
