"""The executors, in modules by topic."""
