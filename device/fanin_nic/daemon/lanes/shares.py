"""What a client may take of a table that all clients of a device share. Record 0043: why there are no fixed quotas."""

import numpy as np

from fanin_nic.engine.engine import Engine
from fanin_nic.hostif.engine_port import NoResources


def check_share(what: str, owners: np.ndarray, total: int, client: int) -> None:
    """Refuse one more of `total` rows of a table to a client that has its share. owners: clients of the used rows."""
    free = total - len(owners)
    if Engine.share(int((owners == client).sum()), free) == 0:
        raise NoResources(f"{what}: this client has its share, and {free} are left for the others")
