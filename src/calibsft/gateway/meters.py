"""The counters of a gateway, for Prometheus: decisions, latencies, failures, confidences, drift."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
TENTHS = tuple(tenth / 10 for tenth in range(11))


class Meters:
    """The metrics of one gateway."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.requests = self._counter("requests", "Requests by HTTP status", "status")
        self.decisions = self._counter("decisions", "Questions by decision and reason", "decision", "reason")
        self.failures = self._counter("upstream_failures", "Replies that did not come", "upstream", "kind")
        self.retries = self._counter("upstream_retries", "Repeated requests", "upstream")
        self.tokens = self._counter("tokens", "Tokens that servers report", "upstream", "kind")
        self.seconds = self._histogram("request_seconds", "Time until a request was answered", SECONDS)
        self.upstream_seconds = self._histogram(
            "upstream_seconds", "Time until a server had replied", SECONDS, "upstream"
        )
        self.confidences = self._histogram("confidence", "Confidences of local responses", TENTHS)
        self.in_flight = self._gauge("in_flight", "Requests under way")
        self.waiting = self._gauge("waiting", "Requests that wait for a place")
        self.drift_distance = self._gauge(
            "drift_distance", "Distance of live confidences from those of calibration"
        )
        self.drifted = self._gauge("drifted", "1 while live confidences differ from those of calibration")

    def page(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        return generate_latest(self._registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"calibsft_{name}", text, labels, registry=self._registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"calibsft_{name}", text, registry=self._registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(f"calibsft_{name}", text, labels, buckets=buckets, registry=self._registry)
