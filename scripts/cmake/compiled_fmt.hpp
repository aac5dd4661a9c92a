// SPDX-License-Identifier: Apache-2.0

// A part of the precompiled headers. fmt's library has this function, but its headers don't say so:
// every source that calls fmt::format_to or logs would compile all of the formatter again, 3 s
// each. Only for GCC, which compiled the library: clang gives the function another name.
#pragma once

#include <fmt/format.h>

#if FMT_VERSION >= 90000 && FMT_VERSION < 100000 && !defined(FMT_HEADER_ONLY) && !defined(__clang__)
extern template FMT_API void fmt::detail::vformat_to<char>(
    fmt::detail::buffer<char>&, fmt::string_view, fmt::basic_format_args<fmt::buffer_context<char>>,
    fmt::detail::locale_ref);
#endif
