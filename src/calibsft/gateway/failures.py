"""Failures as clients see them: errors of the OpenAI API, with a status and one sentence."""

from typing import Any


class Refusal(Exception):
    """An error that a client gets instead of a completion.

    Parameters
    ----------
    status : the HTTP status.
    message : one sentence with the remedy; contains nothing that a client must not see.
    code : a short name for programs.
    headers : sent with the error.
    """

    def __init__(self, status: int, message: str, code: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.code = status, message, code
        self.headers = headers or {}

    def body(self) -> dict[str, Any]:
        """The error as the OpenAI API writes it."""
        kind = "invalid_request_error" if self.status < 500 else "api_error"
        return {"error": {"message": self.message, "type": kind, "param": None, "code": self.code}}


class UpstreamFailure(Refusal):
    """A server behind the gateway gave no completion.

    Parameters
    ----------
    kind : what went wrong, for the metrics.
    pause : the least seconds before asking again; None if asking again would not help.
    headers : sent with the error.
    """

    def __init__(
        self,
        status: int,
        message: str,
        kind: str,
        pause: float | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(status, message, f"upstream_{kind}", headers)
        self.kind, self.pause = kind, pause
