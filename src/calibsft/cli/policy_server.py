"""`calibsft policy-server`: a vLLM server for a policy in training."""

from typing import Annotated

from typer import Argument, Option


def policy_server(
    model: Annotated[str, Argument(help="Checkpoint folder or Hub id of the model that is trained.")],
    host: Annotated[
        str,
        Option(
            metavar="HOST",
            help="Address to listen on. Whoever can reach it can replace the weights, so keep it private.",
        ),
    ] = "127.0.0.1",
    port: Annotated[int, Option(min=1, max=65535, help="Port to listen on.")] = 8000,
    max_model_len: Annotated[
        int | None,
        Option(min=1, help="Longest prompt and response together, in tokens; default: the model's context."),
    ] = None,
    dtype: Annotated[
        str, Option(metavar="DTYPE", help="Number type of the weights: auto, bfloat16, float16 or float32.")
    ] = "auto",
    tensor_parallel: Annotated[int, Option(min=1, help="GPUs that share one model.")] = 1,
    options: Annotated[
        list[str] | None,
        Option(
            "--vllm",
            metavar="KEY=VALUE",
            help="Another option of vLLM's server, e.g. block-size=32. Repeatable.",
        ),
    ] = None,
) -> None:
    """Serve the model that RL trains by vLLM, so that it samples with new weights after every step.

    ```sh
    calibsft policy-server sft/model --port 8000
    ```

    Then start the training with `calibsft rl --policy served --servers-urls http://localhost:8000 …`. vLLM must be
    installed in the server's environment; the trainer may have another one.
    """
    from calibsft.engines.policy.serve import serve_policy

    serve_policy(model, host, port, max_model_len, dtype, tensor_parallel, options or [])
