"""Where rows come from: memory, files, codebooks, units, clusters and sites."""
