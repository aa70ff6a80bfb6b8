"""The interactive chat: `chat` is its command.

`command` runs the conversation line by line, `session` is one conversation with its costs and changes,
`slash_commands` answers lines such as /diff, `screen` prints, `input` reads. The SDK is imported only when a
conversation begins.
"""
