// The bytes between the store and its clients. Little-endian, one host architecture.
//
// A client greets with `store_greeting`; then requests and answers alternate:
//   request  u8 kind, u8 0, u16 key bytes, u32 value bytes, key, value
//   answer   u8 status, u8[3] 0, u32 value bytes, value
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shardscope {

inline constexpr std::string_view store_greeting = "SHSTORE1";
inline constexpr std::size_t store_key_limit = 256;
inline constexpr std::size_t store_value_limit = 64 * 1024;
inline constexpr std::size_t store_keys_limit = 65536;
inline constexpr std::size_t store_bytes_limit = 64 * 1024 * 1024;  ///< keys and values together
inline constexpr std::size_t store_connections_limit = 4096;

/// `offer` sets a value that nobody has set, and answers with the one that is there. `will` keeps
/// an offer until the connection ends, however it does; an empty key withdraws it. `clock` answers
/// with the server's time, i64 Unix nanoseconds on a clock that only goes forward.
enum class StoreRequest : std::uint8_t {
  set = 1,
  get = 2,
  add = 3,
  offer = 4,
  will = 5,
  clock = 6
};
enum class StoreStatus : std::uint8_t { ok = 0, missing = 1, refused = 2 };

struct StoreRequestHeader {
  StoreRequest kind = StoreRequest::get;
  std::uint8_t zero = 0;
  std::uint16_t key_bytes = 0;
  std::uint32_t value_bytes = 0;
};
struct StoreAnswerHeader {
  StoreStatus status = StoreStatus::ok;
  std::uint8_t zero[3] = {};
  std::uint32_t value_bytes = 0;
};
static_assert(sizeof(StoreRequestHeader) == 8 && sizeof(StoreAnswerHeader) == 8);

}  // namespace shardscope
