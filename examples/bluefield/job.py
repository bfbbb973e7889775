"""Describes a job for the devices of a description: python job.py fabric.toml >job.txt

It prints the text that FANIN_JOB names. All ranks need the same text, so make it once and copy it. Its numbers are
random: make a new one for each run of a program.
"""

import argparse
import secrets
from pathlib import Path

from fanin import Job, JobNode
from fanin_tools.fabric import description_file
from fanin_tools.fabric.tree import Tree
from fanin_tools.launch.job_file import chunk_for

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("description", type=Path)
parser.add_argument("--route", default="auto", choices=("auto", "tree", "ring"))
given = parser.parse_args()

fabric = description_file.read(given.description)
tree = Tree(fabric)
nodes, first = [], 0
for nic in tree.nics():
    switches = tuple(switch.address for switch in tree.offloading_above(nic))
    nodes.append(JobNode(nic.address, tuple(range(first, first + nic.ranks)), switches))
    first += nic.ranks
job = Job(
    jid=1 + secrets.randbelow(2**32 - 1),
    key=secrets.randbits(32),
    nodes=tuple(nodes),
    route=given.route,
    chunk=chunk_for(fabric.path_mtu),
)
print(job.to_text(), end="")
