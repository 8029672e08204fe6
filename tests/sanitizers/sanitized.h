// Whether these tests were built with a sanitizer, whose allocator keeps what is freed: resident
// bytes say nothing there.
#pragma once

namespace shardscope::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool is_sanitized = true;
#else
constexpr bool is_sanitized = false;
#endif

}  // namespace shardscope::test
