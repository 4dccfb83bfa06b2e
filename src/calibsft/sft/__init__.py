"""Fine-tune on confidence targets: the confidence of all responses, reasoning and answer of correct ones only."""
