"""The purpose of a server, and what is said about its failures: one sentence with the remedy."""

from dataclasses import dataclass

from calibsft.errors import InputError
from calibsft.served.server import Failed


@dataclass(frozen=True, slots=True)
class Role:
    """The purpose of a server, in words for its error messages.

    Attributes
    ----------
    who, gives : for example "the judge" and "chat completions".
    key : the environment variable of its key; `OPENAI_API_KEY` if that is not set.
    url, model : the names of the settings for them.
    when_slow, when_busy, when_refused : the remedy if the server does not reply, wants fewer requests, or refuses one.
    """

    who: str
    gives: str
    key: str
    url: str
    model: str
    when_slow: str
    when_busy: str
    when_refused: str

    def problem(self, failure: Failed, url: str, model: str, timeout: float, retries: int) -> InputError:
        """The error about a request to the server at `url` that failed, and was repeated `retries` times."""
        server = f"{self.who} at {url}"
        if failure.why == "timeout":
            times = f", {retries + 1} times in a row" if retries else ""
            return InputError(f"{server} took more than {timeout:g} seconds{times}; {self.when_slow}")
        if failure.why == "unreachable":
            return InputError(f"{server} cannot be reached; start its server or correct {self.url}")
        if failure.why == "reply":
            return InputError(
                f"{url} does not reply with {self.gives}; correct {self.url}, which usually ends in /v1"
            )
        status, reason = failure.status, f"({failure.status}{failure.answer})"
        if status in (401, 403):
            # Without the server's words: they may hold the key.
            return InputError(f"{server} refuses the API key ({status}); set the right one in {self.key}")
        if status == 404:
            return InputError(
                f"{server} has no {self.gives} of a model '{model}' {reason}; correct {self.model}, or {self.url},"
                " which usually ends in /v1"
            )
        if status == 429:
            return InputError(f"{server} wants fewer requests {reason}; {self.when_busy}")
        if status >= 500:
            return InputError(f"{server} fails {reason}; check that server and run again")
        return InputError(f"{server} refuses what it is asked {reason}; {self.when_refused}")
