"""Settings of the property tests: no test asserts a time, and the first call of compiled code compiles."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
