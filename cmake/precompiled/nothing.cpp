// A target needs a source, also one that only precompiles headers.
