// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace kedge::cli {

/// Call first: makes OpenBLAS take its memory while there is room for it, and lets any library that gives up leave a
/// sentence and exit code 1 behind. (That there is room at all was checked before main, where libraries are loaded.)
void prepare_libraries();

/// set_threads() for --threads. Throws Error(Code::failed) where more than the machine has cores cannot be had, since
/// OpenBLAS would wait for ever for what it does not get.
void use_threads(unsigned count);

/// After this, leaving is no library's doing.
void leave_in_order();

}  // namespace kedge::cli
