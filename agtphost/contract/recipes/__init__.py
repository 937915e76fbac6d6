"""
Recipes: chains of calls to endpoints of the same host, as data. :mod:`agtphost.handlers.composition` runs them.

- :mod:`.expression`: the expressions of recipes: JMESPath, compiled when a recipe is read
- :mod:`.capture_names`: names that steps capture and expressions use, for cures
- :mod:`.recipe`: the recipe: a named, versioned chain of calls to endpoints of the same host
- :mod:`.book`: the recipes of a host, for all readers but the composition handler
- :mod:`.graph`: the endpoints and recipes that a recipe's steps lead to
- :mod:`.recipe_loading`: loading of recipes from one TOML file
- :mod:`.selection`: the recipes and endpoints that remain callable in every step
"""
