"""A run as one page: tables, figures, costs and the recipe, in HTML and Markdown.

Takes results that others measured and shows them; `runs` reads them from run folders. Does not run models or
compute a metric of its own: every number comes from `metrics`.
"""

from calibsft.callable_room import make_callable

make_callable(__name__)
