// Strong types for what the program counts: bytes, time, rates, ids. Text with units both ways.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>

namespace shardscope {

/// An amount of memory or traffic in bytes. Decimal literals are powers of 10, `_MiB` powers of 2.
struct Bytes {
  std::int64_t count = 0;

  constexpr auto operator<=>(const Bytes&) const = default;
  constexpr Bytes& operator+=(Bytes other) { return count += other.count, *this; }
  constexpr Bytes& operator-=(Bytes other) { return count -= other.count, *this; }
};
constexpr Bytes operator+(Bytes a, Bytes b) { return {a.count + b.count}; }
constexpr Bytes operator-(Bytes a, Bytes b) { return {a.count - b.count}; }
constexpr Bytes operator*(Bytes a, std::int64_t n) { return {a.count * n}; }
constexpr Bytes operator*(std::int64_t n, Bytes a) { return a * n; }
constexpr Bytes operator/(Bytes a, std::int64_t n) { return {a.count / n}; }

/// A length of time, or a point on a trace's clock, in whole nanoseconds.
struct Duration {
  std::int64_t ns = 0;

  constexpr auto operator<=>(const Duration&) const = default;
  constexpr Duration& operator+=(Duration other) { return ns += other.ns, *this; }
  constexpr Duration& operator-=(Duration other) { return ns -= other.ns, *this; }
  constexpr double seconds() const { return static_cast<double>(ns) * 1e-9; }
  /// Nearest nanosecond; saturates instead of overflowing.
  static constexpr Duration from_seconds(double seconds) {
    const double ns = seconds * 1e9;
    constexpr double limit = 9.2e18;
    if (!(ns < limit)) return {std::numeric_limits<std::int64_t>::max()};
    if (ns < -limit) return {std::numeric_limits<std::int64_t>::min()};
    return {static_cast<std::int64_t>(ns < 0 ? ns - 0.5 : ns + 0.5)};
  }
};
constexpr Duration operator+(Duration a, Duration b) { return {a.ns + b.ns}; }
constexpr Duration operator-(Duration a, Duration b) { return {a.ns - b.ns}; }
constexpr Duration operator*(Duration a, std::int64_t n) { return {a.ns * n}; }

/// Floating-point operations (a multiply-add is two).
struct Flops {
  std::int64_t count = 0;

  constexpr auto operator<=>(const Flops&) const = default;
  constexpr Flops& operator+=(Flops other) { return count += other.count, *this; }
};
constexpr Flops operator+(Flops a, Flops b) { return {a.count + b.count}; }
constexpr Flops operator*(Flops a, std::int64_t n) { return {a.count * n}; }

/// Bytes per second.
struct Bandwidth {
  double bytes_per_s = 0;
  constexpr auto operator<=>(const Bandwidth&) const = default;
};

/// Floating-point operations per second.
struct FlopRate {
  double flops_per_s = 0;
  constexpr auto operator<=>(const FlopRate&) const = default;
};

constexpr Duration operator/(Bytes bytes, Bandwidth rate) {
  return Duration::from_seconds(static_cast<double>(bytes.count) / rate.bytes_per_s);
}
constexpr Duration operator/(Flops flops, FlopRate rate) {
  return Duration::from_seconds(static_cast<double>(flops.count) / rate.flops_per_s);
}

inline namespace literals {
// clang-format off
constexpr Bytes operator""_B(unsigned long long n) { return {static_cast<std::int64_t>(n)}; }
constexpr Bytes operator""_kB(unsigned long long n) { return 1000_B * static_cast<std::int64_t>(n); }
constexpr Bytes operator""_MB(unsigned long long n) { return 1000000_B * static_cast<std::int64_t>(n); }
constexpr Bytes operator""_GB(unsigned long long n) { return 1000000000_B * static_cast<std::int64_t>(n); }
constexpr Bytes operator""_KiB(unsigned long long n) { return 1024_B * static_cast<std::int64_t>(n); }
constexpr Bytes operator""_MiB(unsigned long long n) { return 1048576_B * static_cast<std::int64_t>(n); }
constexpr Bytes operator""_GiB(unsigned long long n) { return 1073741824_B * static_cast<std::int64_t>(n); }
constexpr Duration operator""_ns(unsigned long long n) { return {static_cast<std::int64_t>(n)}; }
constexpr Duration operator""_us(unsigned long long n) { return 1000_ns * static_cast<std::int64_t>(n); }
constexpr Duration operator""_ms(unsigned long long n) { return 1000000_ns * static_cast<std::int64_t>(n); }
constexpr Duration operator""_s(unsigned long long n) { return 1000000000_ns * static_cast<std::int64_t>(n); }
// clang-format on
}  // namespace literals

/// A dense index into one table; ids of different tables do not mix and have no arithmetic.
template <class Tag>
struct Id {
  static constexpr std::uint32_t none_value = std::numeric_limits<std::uint32_t>::max();
  std::uint32_t value = none_value;

  constexpr auto operator<=>(const Id&) const = default;
  constexpr bool valid() const { return value != none_value; }
  constexpr explicit operator bool() const { return valid(); }
  static constexpr Id of(std::size_t index) { return {static_cast<std::uint32_t>(index)}; }
};

/// Text with a unit ("80 GiB", "1.5 MB", "512 B") to bytes; a bare number, a negative one, a
/// fraction of a byte or an unknown unit throws Error whose `where` is `where` (a key path or
/// option name).
Bytes parse_bytes(std::string_view text, std::string_view where);
/// "5 us", "7ms", "1.5 s" to a duration; same errors.
Duration parse_duration(std::string_view text, std::string_view where);
/// "900 GB/s", "25 GiB/s", "400 Gbit/s" to a bandwidth; same errors.
Bandwidth parse_bandwidth(std::string_view text, std::string_view where);
/// "989.4 TFLOP/s", "150 GFLOP/s" to a rate; same errors.
FlopRate parse_flop_rate(std::string_view text, std::string_view where);

// Shortest text that the parsers above read back to the same value ("80 GiB", "1536 B", "5 us").
std::string exact_text(Bytes bytes);
std::string exact_text(Duration duration);
std::string exact_text(Bandwidth bandwidth);
std::string exact_text(FlopRate rate);

// Text for people, three significant digits ("1.23 GiB", "45.6 ms", "12.3 GB/s", "456 GFLOP/s").
std::string rounded_text(Bytes bytes);
std::string rounded_text(Duration duration);
std::string rounded_text(Bandwidth bandwidth);
std::string rounded_text(FlopRate rate);

}  // namespace shardscope

template <class Tag>
struct std::hash<shardscope::Id<Tag>> {
  std::size_t operator()(shardscope::Id<Tag> id) const noexcept { return id.value; }
};
