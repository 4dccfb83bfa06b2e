"""The counters of a gateway, for Prometheus: decisions, latencies, failures, confidences, drift, labels."""

from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
TENTHS = tuple(tenth / 10 for tenth in range(11))


class Meters:
    """The metrics of one gateway."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        counter = partial(Counter, namespace="calibsft", registry=self._registry)
        gauge = partial(Gauge, namespace="calibsft", registry=self._registry)
        histogram = partial(Histogram, namespace="calibsft", registry=self._registry)
        self.requests = counter("requests", "Requests by HTTP status", ["status"])
        self.decisions = counter("decisions", "Questions by decision and reason", ["decision", "reason"])
        self.malformed = counter("malformed", "Local responses without a confidence to act on", ["reason"])
        self.failures = counter("upstream_failures", "Replies that did not come", ["upstream", "kind"])
        self.retries = counter("upstream_retries", "Repeated requests", ["upstream"])
        self.tokens = counter("tokens", "Tokens that servers report", ["upstream", "kind"])
        self.uncounted = counter("uncounted", "Replies whose tokens no server has counted", ["upstream"])
        self.seconds = histogram("request_seconds", "Time until a request was answered", buckets=SECONDS)
        self.upstream_seconds = histogram(
            "upstream_seconds", "Time until a server had replied", ["upstream"], buckets=SECONDS
        )
        self.confidences = histogram("confidence", "Confidences of local responses", buckets=TENTHS)
        self.in_flight = gauge("in_flight", "Requests under way")
        self.waiting = gauge("waiting", "Requests that wait for a place")
        self.drift_distance = gauge(
            "drift_distance", "Distance of live confidences from those of calibration"
        )
        self.feedback = counter("feedback", "Labels by what became of them", ["outcome"])
        self.unremembered = counter("unremembered", "Responses that cannot be labelled later")
        self.labels = gauge("labels", "Labels that count for the policy")
        self.label_events = gauge("label_events", "Labels that are events against its promise")
        self.lower_bound = gauge("rate_lower_bound", "Events are at least so frequent")
        self.e_value = gauge("e_value", "Evidence against the promise; an alarm begins at 1/delta")
        self.alarm = gauge("alarm", "1 once labels have shown that the promise is broken")
        self.drifted = gauge("drifted", "1 while live confidences differ from those of calibration")

    def page(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        return generate_latest(self._registry)
