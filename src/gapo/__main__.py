"""`python -m gapo` is the command `gapo`."""

from gapo.cli.main import main

if __name__ == "__main__":
    main()
