"""The playground: a small arithmetic world and a base model that is trained on it in about a minute."""
