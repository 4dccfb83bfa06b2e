"""What a vLLM server of a policy in training does to take new weights: an extension of vLLM's worker.

Loaded by vLLM itself (`--worker-extension-cls calibsft.engines.policy.worker.PolicyWorker`), perhaps in an environment with
little else, so it imports nothing but vLLM. Its methods are called over `/collective_rpc`, on every device of a server.
"""

from typing import Any


class PolicyWorker:
    """Methods that vLLM adds to its worker, whose attributes they use."""

    model_runner: Any

    def policy_shapes(self) -> dict[str, Any]:
        """What tells one model from another, for the trainer to compare."""
        config = self.model_runner.model_config.hf_text_config
        names = ("vocab_size", "hidden_size", "num_hidden_layers")
        return {name: getattr(config, name, None) for name in names}

    def policy_load(self, folder: str) -> dict[str, str]:
        """Take the weights in `folder`, an ordinary checkpoint that every device of the server can read."""
        self.reload_weights(weights_path=folder)  # type: ignore[attr-defined]
        self._repack_tied_head()
        return {"loaded": folder}

    def _repack_tied_head(self) -> None:
        """On a CPU the head is a repacked copy of its weights, and reloading forgets one that is tied to the embeddings."""
        from vllm.platforms import current_platform

        head = getattr(self.model_runner.model, "lm_head", None)
        if current_platform.is_cpu() and head is not None:
            from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm

            dispatch_cpu_unquantized_gemm(head, remove_weight=False)
