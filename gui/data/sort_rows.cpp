#include "gui/data/sort_rows.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

namespace shardscope::gui {
namespace {

struct Entry {
  std::uint64_t key;
  std::uint32_t row;
};

constexpr std::uint64_t last_key = ~std::uint64_t{0};

/// Unsigned keys in the order of the numbers: negative ones by their bits turned round.
std::uint64_t key_of(double number) {
  const auto bits = std::bit_cast<std::uint64_t>(number == 0 ? 0.0 : number);
  constexpr std::uint64_t sign = std::uint64_t{1} << 63;
  return (bits & sign) != 0 ? ~bits : bits | sign;
}

std::uint64_t number_key(double number, SortOrder order) {
  if (std::isnan(number)) return last_key;
  if (order == SortOrder::by_magnitude) return ~key_of(std::abs(number)) - 1;
  const std::uint64_t key = key_of(number);
  return order == SortOrder::ascending ? key : ~key;
}

std::uint64_t text_key(std::uint32_t code, SortOrder order) {
  return order == SortOrder::ascending ? code : UINT32_MAX - code;
}

constexpr int digit_bits = 11;
constexpr std::size_t digit_values = std::size_t{1} << digit_bits;

std::size_t digit_of(std::uint64_t key, int shift) { return (key >> shift) & (digit_values - 1); }

/// One stable pass by a digit of the key; false if all entries have the same one.
bool sort_by_digit(const std::vector<Entry>& from, std::vector<Entry>& to, int shift) {
  std::array<std::size_t, digit_values> begins{};
  for (const Entry& entry : from) ++begins[digit_of(entry.key, shift)];
  if (begins[digit_of(from.front().key, shift)] == from.size()) return false;
  std::size_t sum = 0;
  for (std::size_t& begin : begins) sum += std::exchange(begin, sum);
  for (const Entry& entry : from) to[begins[digit_of(entry.key, shift)]++] = entry;
  return true;
}

}  // namespace

std::vector<std::uint32_t> sorted_rows(const Column& column, std::vector<std::uint32_t> rows,
                                       SortOrder order) {
  if (rows.empty()) return rows;
  std::vector<Entry> entries(rows.size()), other(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i)
    entries[i] = {.key = column.is_text() ? text_key(column.codes[rows[i]], order)
                                          : number_key(column.numbers[rows[i]], order),
                  .row = rows[i]};
  for (int shift = 0; shift < 64; shift += digit_bits)
    if (sort_by_digit(entries, other, shift)) std::swap(entries, other);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = entries[i].row;
  return rows;
}

std::vector<std::uint32_t> all_rows(std::size_t count) {
  std::vector<std::uint32_t> rows(count);
  std::iota(rows.begin(), rows.end(), std::uint32_t{0});
  return rows;
}

}  // namespace shardscope::gui
