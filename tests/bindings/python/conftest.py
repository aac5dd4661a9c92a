# SPDX-License-Identifier: Apache-2.0
import faulthandler

# A test that hangs ends with the stacks of all threads.
faulthandler.dump_traceback_later(240, exit=True)
