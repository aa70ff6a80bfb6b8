"""Two-way synchronisation of a directory of text files with a memory store.

`SyncSession` runs rounds until both sides are the same, apart from differences that it reports. A round has four parts:
it scans the directory (`folder`), lists the memories, plans steps (`plan`), and applies the steps (`apply`). The plan
compares both sides with their last common state, which is saved in a file (`state`). Even if that file is missing or
old, no text is lost. `watch` synchronises continuously.
"""
