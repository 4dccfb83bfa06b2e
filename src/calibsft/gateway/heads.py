"""A limit on the request line and headers of a client.

uvicorn has none, and its time grows with the square of their length: a hundred megabytes block all other requests for a
minute.
"""

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LARGEST_HEAD = 1 << 20


class BoundedHeads(HttpToolsProtocol):
    """uvicorn's HTTP protocol, which refuses a request after too many bytes without complete headers or a part of a body."""

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
