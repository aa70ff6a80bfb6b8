"""The interactive chat.

`command` runs the conversation line by line, `session` is one conversation with its usage and changes,
`slash_commands` answers lines such as /diff, `screen` prints. The SDK is imported only when a conversation begins.
"""
