"""OpenAI-compatible servers: the connection to one."""
