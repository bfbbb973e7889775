"""Slots: the slot rule, the contributions in a slot, and the arithmetic on them."""
