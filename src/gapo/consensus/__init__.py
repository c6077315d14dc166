"""Beyond the paper: which labels are wrong, told by how a pair's gradient lies to the mean direction of the others."""
