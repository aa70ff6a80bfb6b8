"""Two-way synchronisation of a directory of text files with a memory store.

`sync_once` runs rounds until both sides are equal, except for reported differences. A round scans the directory
(`folder`), lists the memories, plans the steps (`plan`, a pure function of both sides and of the last common state) and
applies them (`apply`). `watch` synchronises continuously. No text is lost if the saved state is missing or outdated.
"""
