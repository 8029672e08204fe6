#include "gui/data/sort_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace shardscope::gui {
namespace {

std::vector<double> random_numbers(std::size_t count) {
  std::mt19937_64 random(7);
  std::vector<double> numbers;
  for (std::size_t i = 0; i < count; ++i) {
    // Few distinct values, so that many rows are equal; some have none.
    const auto value = static_cast<double>(random() % 1001) - 500;
    numbers.push_back(random() % 20 == 0 ? no_number : value * 0.37);
  }
  return numbers;
}

TEST(SortRows, AscendingIsAStableSortByNumberWithNothingLast) {
  const Column column{.quantity = Quantity::duration, .numbers = random_numbers(20'000)};
  std::vector<std::uint32_t> expected = all_rows(column.numbers.size());
  std::stable_sort(expected.begin(), expected.end(), [&](std::uint32_t a, std::uint32_t b) {
    const double x = column.numbers[a], y = column.numbers[b];
    if (std::isnan(x) || std::isnan(y)) return !std::isnan(x) && std::isnan(y);
    return x < y;
  });
  EXPECT_EQ(sorted_rows(column, all_rows(column.numbers.size()), SortOrder::ascending), expected);
}

TEST(SortRows, DescendingKeepsEqualRowsInTheirOrder) {
  const Column column{.quantity = Quantity::bytes, .numbers = random_numbers(20'000)};
  std::vector<std::uint32_t> expected = all_rows(column.numbers.size());
  std::stable_sort(expected.begin(), expected.end(), [&](std::uint32_t a, std::uint32_t b) {
    const double x = column.numbers[a], y = column.numbers[b];
    if (std::isnan(x) || std::isnan(y)) return !std::isnan(x) && std::isnan(y);
    return x > y;
  });
  EXPECT_EQ(sorted_rows(column, all_rows(column.numbers.size()), SortOrder::descending), expected);
}

TEST(SortRows, ByMagnitudeBringsTheLargestDifferenceOfEitherSignFirst) {
  const Column column{.quantity = Quantity::duration, .numbers = {2, -7, no_number, 7, 0, -3}};
  // 7 and -7 are equal and keep their order.
  EXPECT_EQ(sorted_rows(column, all_rows(6), SortOrder::by_magnitude),
            (std::vector<std::uint32_t>{1, 3, 5, 0, 4, 2}));
}

TEST(SortRows, NegativeZeroEqualsZero) {
  const Column column{.quantity = Quantity::count, .numbers = {0.0, -0.0, 0.0, -1}};
  EXPECT_EQ(sorted_rows(column, all_rows(4), SortOrder::ascending),
            (std::vector<std::uint32_t>{3, 0, 1, 2}));
}

TEST(SortRows, TextsGoByTheirBytesInBothDirections) {
  Column column;
  set_texts(column, {"layers.2", "layers.10", "", "layers.2"});
  EXPECT_EQ(sorted_rows(column, all_rows(4), SortOrder::ascending),
            (std::vector<std::uint32_t>{2, 1, 0, 3}));
  EXPECT_EQ(sorted_rows(column, all_rows(4), SortOrder::descending),
            (std::vector<std::uint32_t>{0, 3, 1, 2}));
}

}  // namespace
}  // namespace shardscope::gui
