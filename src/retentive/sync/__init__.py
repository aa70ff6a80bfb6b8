"""Two-way synchronisation of a directory of text files with a memory store.

`sync_once` runs rounds until both sides are equal, except for reported differences. A round scans the directory
(`folder`), lists the memories, plans (`plan`, a pure function of both sides and of the last common state) and
applies (`apply`). `watch` repeats it. Safety does not depend on the saved state: it can be lost, or be older than
both sides.
"""
