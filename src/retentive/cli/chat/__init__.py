"""`retentive chat`, the interactive chat.

- `command`: runs the conversation line by line.
- `session`: state of the conversation.
- `slash_commands`: answers to lines such as /diff.
- `screen`: output.

The SDK is imported only when a conversation begins.
"""
