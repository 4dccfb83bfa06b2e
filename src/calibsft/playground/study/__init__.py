"""The study's world: twelve kinds of exercise, of which five are trained on after pre-training."""
