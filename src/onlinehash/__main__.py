"""``python -m onlinehash``."""

from onlinehash.cli import main

if __name__ == "__main__":
    main()
