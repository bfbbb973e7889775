"""AH: an address handle, which names the receiver of datagrams."""

from fanin.verbs.gid import GID, AHAttr
from fanin.verbs.mr import PD
from fanin.verbs.resource import Resource, columns


class AH(Resource):
    collectable = True

    def __init__(self, pd: PD, attr: AHAttr) -> None:
        pd.require_open()
        self.ipv4 = attr.ipv4
        super().__init__(pd)

    def __str__(self) -> str:
        return columns(dgid=GID.of_ipv4(self.ipv4))
