"""What several layers are made of: checks of input, arrays, files, kernels, threads."""
