"""Where rows come from: memory, files, the workers of a cluster, a device."""
