"""`python -m devmind`, the same as `devmind`."""

from devmind.cli import main

if __name__ == "__main__":
    main()
