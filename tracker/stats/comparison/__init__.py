"""Whether one version is better than another, and by how much."""
