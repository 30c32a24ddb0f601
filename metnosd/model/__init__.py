"""The local model: its catalog, the fetching of its file, and the process that runs it."""
