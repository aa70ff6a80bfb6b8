"""The interactive chat.

Module `command` runs the conversation line by line, `session` has its state, `slash_commands` answers lines such as
/diff, and `screen` prints. The SDK is imported only when a conversation begins.
"""
