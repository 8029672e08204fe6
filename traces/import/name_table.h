// Texts that are kept once and known by number.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardscope {

/// Numbers texts in order of first appearance. Open addressing over the list itself, so that a
/// text is held once.
class NameTable {
 public:
  std::uint32_t intern(std::string_view text);
  const std::vector<std::string>& names() const { return names_; }
  std::vector<std::string> take() && { return std::move(names_); }

 private:
  void grow();

  std::vector<std::string> names_;
  std::vector<std::uint32_t> slots_;  ///< index + 1; 0: free
};

}  // namespace shardscope
