"""Files and folders of one user: private ones, temporary ones."""
