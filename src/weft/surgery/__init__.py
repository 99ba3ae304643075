"""Cut and rebuild graphs with the op table at hand: every edit keeps types right or refuses."""
