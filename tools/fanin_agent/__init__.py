"""The agent of `fanin conform`: it works a NIC as its host does, through fanin.verbs (docs/conformance.md)."""
