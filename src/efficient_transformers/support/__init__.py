"""What every module needs: checks of arguments, files that are whole, tables."""
