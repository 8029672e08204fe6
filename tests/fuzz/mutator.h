// Seeded mutations of byte strings: the same seed and corpus give the same sequence of inputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace shardscope::fuzz {

class Mutator {
 public:
  /// `corpus` is not empty; no result is longer than `max_bytes`.
  Mutator(std::vector<std::string> corpus, std::uint64_t seed, std::size_t max_bytes);

  /// An input of the corpus, changed in one to eight places.
  std::string next();

 private:
  std::uint64_t random();
  std::size_t below(std::size_t bound);
  const std::string& any_input();
  void mutate(std::string& input);

  std::vector<std::string> corpus_;
  std::uint64_t state_;
  std::size_t max_bytes_;
};

}  // namespace shardscope::fuzz
