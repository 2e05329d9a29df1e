// SPDX-License-Identifier: Apache-2.0
// {fmt} as a static library, of which Debian has only the headers and a shared one: what kedge and spdlog use of it.
#include <fmt/format-inl.h>

namespace fmt::v9::detail {
template auto dragonbox::to_decimal(float) noexcept -> dragonbox::decimal_fp<float>;
template auto dragonbox::to_decimal(double) noexcept -> dragonbox::decimal_fp<double>;
template auto thousands_sep_impl(locale_ref) -> thousands_sep_result<char>;
template auto decimal_point_impl(locale_ref) -> char;
template void buffer<char>::append(const char*, const char*);
template void vformat_to(buffer<char>&, string_view, basic_format_args<buffer_context<char>>, locale_ref);
}  // namespace fmt::v9::detail
