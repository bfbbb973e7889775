"""`python -m tests.rdma.doorbells_over_rxe` runs tests/verbs_lib/doorbells.py between two rxe devices of a virtual
machine, whose processor is emulated: the figures compare the two methods, not real machines."""

from .machine import programs
from .machine.guest import running
from .machine.image import image

SECONDS = 1200


def main() -> None:
    environment = programs.prepare()
    with running(image(), with_files=True) as machine:
        programs.install_verbs(machine)
        machine.call("run", command=["busybox", "sh", "/link.sh"])
        print(programs.run_module(machine, environment, "tests.verbs_lib.doorbells", ["rxe1", "rxe2"], SECONDS))


if __name__ == "__main__":
    main()
