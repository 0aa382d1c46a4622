"""Batched augmentation on the batch's device: every image its own parameters, every run the same views."""

from isotherm.views.recipes import RECIPES, Recipe, recipe

__all__ = ["RECIPES", "Recipe", "recipe"]
