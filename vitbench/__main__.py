"""``python -m vitbench``."""

from vitbench.cli.main import main

if __name__ == "__main__":
    main()
