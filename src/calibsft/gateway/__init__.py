"""Serve a policy: an OpenAI-compatible gateway that answers, abstains or defers.

It asks the local model, reads its confidence, and acts as the policy says. Does not choose the threshold (that is
`decisions`) and does not run models: each has its own OpenAI-compatible server.
"""
