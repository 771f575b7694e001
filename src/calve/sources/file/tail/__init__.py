"""Files that grow: new lines are read as they are appended, over rotations."""
