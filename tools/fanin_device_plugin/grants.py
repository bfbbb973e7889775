"""Which device file each pair was given with.

The kubelet keeps Allocate's answer, and uses it to start a container again, also after a boot. If the VFs were made
anew meanwhile, that device file may belong to another pair.
"""

import json
from pathlib import Path

from fanin_cluster.placement.node import NodePair
from fanin_device_plugin.files import write_file


class Grants:
    """Verbs devices as they were given, by pair, in a file that survives the plugin and a boot."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._given: dict[str, str] = json.loads(path.read_text())
        except (OSError, ValueError):
            self._given = {}

    def note(self, pair: NodePair) -> None:
        self._given[pair.id] = pair.verbs
        write_file(self._path, json.dumps(self._given))

    def differs(self, pair: NodePair) -> str:
        """Why a container that was given this pair can not start again; "" if it can."""
        given = self._given.get(pair.id, pair.verbs)
        if given == pair.verbs:
            return ""
        return (
            f"{pair.name} was given as {given} and is {pair.verbs} now: its VF was made anew; delete the pod, so that"
            " another one is given it"
        )
