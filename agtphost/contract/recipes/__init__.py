"""
Recipes: chains of calls to endpoints of the same host, as data. :mod:`agtphost.handlers.composition` runs them.

- :mod:`.expression`: the expressions of recipes: JMESPath, compiled when a recipe is read
- :mod:`.recipe`: the recipe: a named, versioned chain of calls to endpoints of the same host
- :mod:`.book`: the recipes of a host, as everybody but the composition handler looks at them
- :mod:`.graph`: what the steps of recipes lead to: endpoints, and through them other recipes
- :mod:`.loading`: recipes from one TOML file: every problem, with file and line, and whatever is sound besides
- :mod:`.settling`: recipes settled with endpoints: what is left is callable in every step
"""
