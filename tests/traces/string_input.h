// A text as the bytes of a file.
#pragma once

#include <algorithm>
#include <string>

#include "traces/import/text_input.h"

namespace shardscope::samples {

/// Refers to the text, which must outlive it.
class StringInput : public TextInput {
 public:
  explicit StringInput(const std::string& text) : text_(text) {}
  std::size_t read(std::span<char> out) override {
    const std::size_t count = std::min(out.size(), text_.size() - at_);
    std::copy_n(text_.data() + at_, count, out.data());
    at_ += count;
    return count;
  }
  std::int64_t consumed_bytes() const override { return static_cast<std::int64_t>(at_); }

 private:
  const std::string& text_;
  std::size_t at_ = 0;
};

}  // namespace shardscope::samples
