"""Texts in the cells of the reference's tables."""


def cell(text: str) -> str:
    """A text on one line, with the items of a list below each other."""
    return text.strip().replace("|", "\\|").replace("\n- ", "<br>– ").replace("\n", " ")
