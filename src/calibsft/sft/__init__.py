"""Fine-tune on confidence targets: confidence on all responses, reasoning and answer on correct ones only."""
