"""The embedded default: a small arithmetic world and a base model trained on it in about a minute."""
