"""`python -m fanin_tools.stress.fuzz --seconds 60 --seed 7` attacks and prints the tally; exit code 1 for a finding."""

import json
import secrets
import sys

from fanin_tools.stress.fuzz.run import run
from fanin_tools.stress.tally import Tally
from fanin_wire.command_line import Parser


def main() -> int:
    parser = Parser(prog="python -m fanin_tools.stress.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=None, help="default: a random seed, which is printed")
    arguments = parser.parse_args()
    seed = secrets.randbits(31) if arguments.seed is None else arguments.seed
    tally = Tally(seed)
    run(arguments.seconds, seed, tally)
    print(json.dumps(tally.as_dict(), indent=2))
    return 0 if tally.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
