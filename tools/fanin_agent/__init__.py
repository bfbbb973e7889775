"""The agent of `fanin conform`: the host of a NIC, through fanin.verbs (docs/agent.md)."""
