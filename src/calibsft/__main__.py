"""`python -m calibsft`, which launchers such as `accelerate launch -m calibsft` need."""

from calibsft.cli import main

if __name__ == "__main__":
    main()
