// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace capstan::cli {

/// Gives this process the state that programs expect, whatever its parent has left to it: open
/// descriptors 0 to 2, no blocked signals, and children that can be waited for. A limit of files is
/// an error like a full disk, and ends nothing.
void begin_as_expected();

/// Whether something could not be written to standard output: prints throw then.
bool output_is_lost();

/// The exit status of a command that ended with `status`: a result that could not be written to
/// standard output makes success a failure, and is told.
int with_written_output(int status);

}  // namespace capstan::cli
