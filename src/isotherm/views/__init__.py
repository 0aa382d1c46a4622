"""Batched augmentation on the batch's device: every image its own parameters, every run the same views."""

from isotherm.views.multi_crop import multi_crop
from isotherm.views.recipes import RECIPES, Recipe, recipe

__all__ = ["RECIPES", "Recipe", "multi_crop", "recipe"]
