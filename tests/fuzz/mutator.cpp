#include "tests/fuzz/mutator.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace shardscope::fuzz {
namespace {

using namespace std::string_view_literals;

/// Text that parsers trip over: structure, extreme numbers, lone bytes of UTF-8.
constexpr std::array tokens{"{"sv,
                            "}"sv,
                            "["sv,
                            "]"sv,
                            "\""sv,
                            ":"sv,
                            ","sv,
                            "\\u0000"sv,
                            "\\ud800"sv,
                            "null"sv,
                            "true"sv,
                            "{}"sv,
                            "[]"sv,
                            "\"\""sv,
                            "0"sv,
                            "-1"sv,
                            "1e999"sv,
                            "-0.0"sv,
                            "9223372036854775807"sv,
                            "9223372036854775808"sv,
                            "-9223372036854775808"sv,
                            "18446744073709551616"sv,
                            "4294967296"sv,
                            "2147483648"sv,
                            "NaN"sv,
                            "Infinity"sv,
                            "\n"sv,
                            "\0"sv,
                            "\xff"sv,
                            "\xc0\x80"sv,
                            "\x00\x00\x00\x80"sv,
                            "\xff\xff\xff\xff\xff\xff\xff\x7f"sv,
                            " "sv};

}  // namespace

Mutator::Mutator(std::vector<std::string> corpus, std::uint64_t seed, std::size_t max_bytes)
    : corpus_(std::move(corpus)), state_(seed), max_bytes_(max_bytes) {}

/// SplitMix64 (Steele, Lea, Flood 2014).
std::uint64_t Mutator::random() {
  std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

std::size_t Mutator::below(std::size_t bound) { return bound == 0 ? 0 : random() % bound; }

const std::string& Mutator::any_input() { return corpus_[below(corpus_.size())]; }

std::string Mutator::next() {
  std::string input = any_input();
  for (std::size_t changes = 1 + below(8); changes > 0; --changes) mutate(input);
  if (input.size() > max_bytes_) input.resize(max_bytes_);
  return input;
}

void Mutator::mutate(std::string& input) {
  const std::size_t at = below(input.size() + 1);
  const std::size_t length = std::min(input.size() - at, 1 + below(below(8) == 0 ? 4096 : 8));
  switch (below(8)) {
    case 0:
      if (at < input.size()) input[at] = static_cast<char>(input[at] ^ (1 << below(8)));
      break;
    case 1:
      if (at < input.size()) input[at] = static_cast<char>(random());
      break;
    case 2:
      input.erase(at, length);
      break;
    case 3:
      input.insert(at, input.substr(at, length));
      break;
    case 4:
      input.insert(at, tokens[below(tokens.size())]);
      break;
    case 5:
      input.replace(at, length, tokens[below(tokens.size())]);
      break;
    case 6: {
      const std::string& other = any_input();
      input.resize(at);
      input += other.substr(below(other.size() + 1));
      break;
    }
    default:
      input.resize(at);
  }
}

}  // namespace shardscope::fuzz
