"""The demo.

`command` is the parent process, which starts two sessions, serves the scripted Claude and shows what happens; `session`
is the process of one session; `story` is the task and the script, `figures` the counts, `show` the layout.
"""
