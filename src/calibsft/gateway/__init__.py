"""Serve a policy: an OpenAI-compatible gateway that answers, abstains or defers.

It asks the local model, reads its confidence, and acts as the policy says. Does not decide where the threshold is (that is
`decisions`) and does not run models: both stand behind OpenAI-compatible servers of their own.
"""
