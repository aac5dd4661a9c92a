// Nothing: the target that compiles the tests' precompiled headers needs a source.
