"""Wrong usage of a program in the form of `fanin`: a name, the cause, the remedy; exit code 2."""

from __future__ import annotations

import argparse
import sys
from typing import NoReturn

WRONG_USAGE = 2  # exit code


class Parser(argparse.ArgumentParser):
    """An ArgumentParser with errors in this form."""

    def error(self, message: str) -> NoReturn:
        """Refuse the arguments; argparse calls this. message: the cause."""
        self.refuse(message, f"see {self.prog} --help")

    def refuse(self, cause: str, remedy: str) -> NoReturn:
        """End the program with one line."""
        print(f"fanin: INVALID_REQUEST: {cause}; {remedy}", file=sys.stderr)
        sys.exit(WRONG_USAGE)
