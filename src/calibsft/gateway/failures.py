"""What goes wrong, as clients are told: the errors of the OpenAI API, with a status and one sentence."""

from typing import Any


class Refusal(Exception):
    """A request that gets an error instead of a completion.

    Parameters
    ----------
    status : of the HTTP response.
    message : one sentence with the remedy; holds nothing that a client must not see.
    code : a short name for programs.
    headers : to send along.
    """

    def __init__(self, status: int, message: str, code: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.code = status, message, code
        self.headers = headers or {}

    def body(self) -> dict[str, Any]:
        """As the OpenAI API writes errors."""
        kind = "invalid_request_error" if self.status < 500 else "api_error"
        return {"error": {"message": self.message, "type": kind, "param": None, "code": self.code}}


class UpstreamFailure(Refusal):
    """A server behind the gateway that gives no completion.

    Parameters
    ----------
    kind : what went wrong, for the metrics.
    pause : seconds to wait at least before asking again; None where that would not help.
    """

    def __init__(self, status: int, message: str, kind: str, pause: float | None = None) -> None:
        super().__init__(status, message, f"upstream_{kind}")
        self.kind, self.pause = kind, pause
