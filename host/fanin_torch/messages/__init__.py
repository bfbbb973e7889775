"""Point-to-point messages of a group.

| ranks | way |
| --- | --- |
| on one host | a Unix socket for each pair (`socket_links`) |
| on others | RC queue pairs of the NIC's ordinary traffic (`nic_links`) |

| message | protocol |
| --- | --- |
| up to 64 KiB by NIC, 1 MiB by socket | DATA: at once; it waits at the receiver until it is wanted |
| longer | rendezvous: OFFER, then the receiver fetches the data to where the program wants them, then FETCHED |

The thread that waits takes what comes in (`progress`); a thread of the group does while nobody waits.
"""

from fanin_torch.messages.group_messages import Messages
from fanin_torch.messages.message import ANY

__all__ = ["ANY", "Messages"]
