"""The name under which `verifiers` loads the environment: it imports top-level modules alone."""

from calibsft.integrations.verifiers import ConfidenceTaskset

__all__ = ["ConfidenceTaskset"]
