// SPDX-License-Identifier: Apache-2.0

// Nothing: the target that compiles the tests' precompiled headers needs a source.
