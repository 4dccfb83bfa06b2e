"""What fine-tuning and RL share: checkpoints without pickle, the journal of steps, low-rank adapters."""
