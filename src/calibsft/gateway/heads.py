"""How long the request line and the headers of a client may be.

uvicorn reads them at any length, in time that grows with the square of it: a hundred megabytes stop every other request for
a minute.
"""

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LARGEST_HEAD = 1 << 20


class BoundedHeads(HttpToolsProtocol):
    """uvicorn's own reading of requests, which ends where neither headers nor a piece of a body ever do."""

    _unread = 0

    def data_received(self, data: bytes) -> None:
        self._unread += len(data)
        super().data_received(data)
        if self._unread > LARGEST_HEAD and not self.transport.is_closing():
            self.send_400_response("Too long a head.")

    def on_headers_complete(self) -> None:
        self._unread = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unread = 0
        super().on_body(body)
