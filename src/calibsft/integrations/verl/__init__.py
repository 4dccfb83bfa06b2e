"""The plug-in for verl 0.9.1, and the export of a recipe to it.

`plugin` is loaded by verl itself, through an entry point. Only `plugin`, `reward_manager`, `trainer`, `sft_loss` and
`sft_trainer` import verl; the export works without it.
"""
