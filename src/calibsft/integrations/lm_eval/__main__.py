"""Print the folder for lm-eval's `--include_path`."""

from calibsft.integrations.lm_eval import FOLDER

print(FOLDER)
