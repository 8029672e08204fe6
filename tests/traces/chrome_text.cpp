#include "tests/traces/chrome_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "traces/import/kineto_reader.h"

namespace shardscope::samples {
namespace {

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

}  // namespace

ImportedTrace imported(const std::string& text) {
  StringInput input(text);
  return read_kineto(input, TextStore::temporary(), "trace.json", {});
}

std::string chrome_text(std::string_view events, std::string_view keys) {
  return fmt::format(R"({{"schemaVersion": 1, {}, "traceEvents": [{}]}})", keys, events);
}

std::string kernel(std::string_view name, int stream, std::string_view start,
                   std::string_view duration) {
  return fmt::format(
      R"({{"ph": "X", "cat": "kernel", "name": "{}", "pid": 0, "tid": {}, "ts": {}, "dur": {}, "args": {{"device": 0, "stream": {}}}}})",
      name, stream, start, duration, stream);
}

}  // namespace shardscope::samples
