"""The demo.

- `command`: the parent process, which starts two sessions, serves the scripted Claude and shows the events.
- `session`: the process of one session.
- `story`: the task and the script.
- `figures`: the counts.
- `show`: the layout of the output.
"""
