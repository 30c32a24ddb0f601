"""`python -m metnosd`."""

from metnosd.cli import main

if __name__ == "__main__":
    main()
