"""The base of the errors of this package."""


class ClusterError(Exception):
    """An action that is impossible. `cause` says why, `remedy` what to do."""

    def __init__(self, cause: str, remedy: str) -> None:
        super().__init__(f"{cause}; {remedy}")
        self.cause = cause
        self.remedy = remedy
