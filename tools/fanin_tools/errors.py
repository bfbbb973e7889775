"""Errors of the command: a name, the cause, the remedy."""


class ToolError(Exception):
    """A failure that the user can act on.

    name: in capitals; a status name of the host interface if one fits. cause: what is wrong, with the object that it
    concerns. remedy: what to do. exit_code: 1 for a failure, 2 for wrong use.
    """

    def __init__(self, name: str, cause: str, remedy: str, exit_code: int = 1) -> None:
        super().__init__(name, cause, remedy)
        self.name = name
        self.cause = cause
        self.remedy = remedy
        self.exit_code = exit_code

    def __str__(self) -> str:
        return f"{self.name}: {self.cause}; {self.remedy}"

    def as_dict(self) -> dict[str, str]:
        return {"name": self.name, "cause": self.cause, "remedy": self.remedy}


class UsageError(ToolError):
    """Wrong options or files; raised before anything is started."""

    EXIT_CODE = 2

    def __init__(self, cause: str, remedy: str, name: str = "INVALID_REQUEST") -> None:
        super().__init__(name, cause, remedy, self.EXIT_CODE)
