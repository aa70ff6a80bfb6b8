"""`retentive demo`.

- `command`: the parent process. It starts two sessions, serves the scripted Claude and shows the events.
- `session`: the process of one session.
- `served`: the server for `--served`.
- `story`: the task and the script of Claude.
- `figures`: counts of replies and tokens.
- `show`: the output.
"""
