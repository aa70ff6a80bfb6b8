"""Network faults between client and server, mostly at a commit: connections that break, slow down or fall silent."""
