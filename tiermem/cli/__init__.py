"""The command line: text in, text out, an exit status. It decides nothing."""

from tiermem.cli.app import main as main
