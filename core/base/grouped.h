// Large numbers for people.
#pragma once

#include <cstdint>
#include <string>

namespace shardscope {

/// 1234567 as "1,234,567".
std::string grouped(std::int64_t number);

}  // namespace shardscope
