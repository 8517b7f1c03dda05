"""`python -m semel` is `semel`."""

from semel.cli.main import main

main()
