"""What the paper measured, with one model on eight GPUs: the only costs of real trainings that are known here.

Its table of costs counts 200 steps of each training, its text 180 and 160, which recipes follow; minutes per step are the same.
"""

MODEL = "Qwen/Qwen3-8B"
GPUS = 8
# Responses sampled for training, at 8,192 tokens at most, and the GPU-hours that they took.
ROLLOUTS, ROLLOUT_GPU_HOURS = 1_845_750, 147.0
# Responses with the rarest target among those, so as many were drawn of every target.
SMALLEST_GROUP = 349
# Minutes of one step on all GPUs, and the responses that it trained on.
SFT_MINUTES, SFT_RESPONSES = 0.33, 256
RL_MINUTES, RL_RESPONSES = 4.77, 512
# Batches that dynamic sampling generated, and the steps that it filled with them.
GENERATED_BATCHES, FILLED_STEPS = 600, 160
