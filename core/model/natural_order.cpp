#include "core/model/natural_order.h"

#include <algorithm>
#include <string>
#include <tuple>

namespace shardscope {
namespace {

constexpr std::string_view digits = "0123456789";

/// A number without leading zeros compares by its length, then by its digits.
std::string_view significant(std::string_view number) {
  if (number.empty()) return number;
  return number.substr(std::min(number.find_first_not_of('0'), number.size() - 1));
}

struct Part {
  std::string_view text;
  std::string_view number;

  /// Python's comparison of (0, number), (1, text) and (1, text, number).
  bool operator<(const Part& other) const { return key() < other.key(); }
  std::tuple<bool, std::string_view, bool, std::size_t, std::string_view> key() const {
    return {!text.empty() || number.empty(), text, !number.empty(), number.size(), number};
  }
};

std::vector<Part> parts_of(std::string_view name) {
  std::vector<Part> parts;
  while (true) {
    const std::string_view part = name.substr(0, name.find('.'));
    const std::size_t last = part.find_last_not_of(digits);
    const std::size_t letters = last == std::string_view::npos ? 0 : last + 1;
    parts.push_back({.text = part.substr(0, letters), .number = significant(part.substr(letters))});
    if (part.size() == name.size()) return parts;
    name.remove_prefix(part.size() + 1);
  }
}

}  // namespace

bool comes_before(std::string_view name, std::string_view other) {
  return parts_of(name) < parts_of(other);
}

std::vector<ParameterId> in_natural_order(const Model& model) {
  std::vector<ParameterId> order;
  for (std::size_t i = 0; i < model.parameters.size(); ++i) order.push_back(ParameterId::of(i));
  std::sort(order.begin(), order.end(), [&](ParameterId a, ParameterId b) {
    return comes_before(model.parameters[a.value].name, model.parameters[b.value].name);
  });
  return order;
}

}  // namespace shardscope
