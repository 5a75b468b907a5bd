"""Recipes: found in web pages and texts, split into ingredients and steps, and checked."""
