"""A sandbox's work into its base: merged, opened as a pull request, or kept on its branch."""
