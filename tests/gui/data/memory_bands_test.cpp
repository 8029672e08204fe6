#include "gui/data/memory_bands.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "gui/data/band_columns.h"

namespace shardscope::gui {
namespace {

constexpr std::size_t activations = 3;

MemoryLevel level(double begin, std::int64_t parameters, std::int64_t activation_bytes = 0) {
  MemoryLevel result{.begin = begin};
  result.bytes[0] = {parameters};
  result.bytes[activations] = {activation_bytes};
  return result;
}

MemoryLevels three() {
  return {.levels = {level(10, 100), level(20, 100, 50), level(30, 100)}, .end = 40};
}

/// Steps of 0, 1 or 2 ns, so that several levels begin at once.
MemoryLevels random_levels(std::mt19937& random, int count) {
  MemoryLevels result;
  double time = 5;
  for (int i = 0; i < count; ++i) {
    result.levels.push_back(level(time, static_cast<std::int64_t>(random() % 1000),
                                  static_cast<std::int64_t>(random() % 1000)));
    time += static_cast<double>(random() % 3);
  }
  result.end = time + 1;
  return result;
}

/// By definition: all levels that hold at some time of [begin, end), or begin there.
BandColumn column_by_definition(const MemoryLevels& levels, BandSet shown, double begin,
                                double end) {
  BandColumn column;
  for (std::uint32_t i = 0; i < levels.levels.size(); ++i) {
    const double from = levels.levels[i].begin;
    const double to = i + 1 < levels.levels.size() ? levels.levels[i + 1].begin : levels.end;
    const bool holds = from < end && to > begin && to > from;
    const bool begins = begin <= from && from < end;
    if (!holds && !begins) continue;
    const auto total = [&](std::uint32_t at) { return levels.levels[at].bytes.total(shown); };
    if (column.empty() || total(i) > total(column.highest)) column.highest = i;
    if (column.lowest == BandColumn::none || total(i) < total(column.lowest)) column.lowest = i;
  }
  return column;
}

TEST(MemoryBands, ALevelIsInForceUntilTheNextAndTheLastUntilTheEnd) {
  const MemoryLevels levels = three();
  EXPECT_EQ(levels.at(9.9), std::nullopt);
  EXPECT_EQ(levels.at(10), 0u);
  EXPECT_EQ(levels.at(29.9), 1u);
  EXPECT_EQ(levels.at(39), 2u);
  EXPECT_EQ(levels.at(40), std::nullopt);
}

TEST(MemoryBands, TotalsCountWhatIsShown) {
  const BandBytes bytes = level(0, 100, 50).bytes;
  EXPECT_EQ(bytes.total(), Bytes{150});
  EXPECT_EQ(bytes.total(BandSet().set(activations)), Bytes{50});
}

TEST(MemoryBands, EveryBandHasALetterOfItsOwn) {
  std::set<char> letters;
  for (std::size_t band = 0; band < memory_band_count; ++band) letters.insert(band_letter(band));
  EXPECT_EQ(letters.size(), memory_band_count);
}

TEST(MemoryBands, ThePeakIsTheFirstHighestLevelWithinTheWindow) {
  MemoryLevels levels = three();
  levels.levels.push_back(level(35, 150));
  EXPECT_EQ(peak_level(levels, all_bands, 0, 100), 1u);
  EXPECT_EQ(peak_level(levels, all_bands, 30, 100), 3u);
  EXPECT_EQ(peak_level(levels, all_bands, 25, 26), 1u) << "in force, begun before";
  EXPECT_EQ(peak_level(levels, all_bands, 50, 60), std::nullopt);
  EXPECT_EQ(peak_level(levels, BandSet().set(activations), 0, 100), 1u);
}

TEST(MemoryBands, PairsChangeWhereEitherSideDoes) {
  // Predicted 10, 20, 30 to 40; profiled 20 and 25 to 45.
  const MemoryLevels profiled{.levels = {level(20, 1), level(25, 2)}, .end = 45};
  const PairedLevels pairs = paired(three(), profiled);
  std::vector<double> begins;
  for (const auto& row : pairs.rows) begins.push_back(row.begin);
  EXPECT_EQ(begins, (std::vector<double>{10, 20, 25, 30, 40, 45}));
  EXPECT_EQ(pairs.rows[0].profiled, PairedLevels::none);
  EXPECT_EQ(pairs.rows[2].predicted, 1u);
  EXPECT_EQ(pairs.rows[2].profiled, 1u);
  EXPECT_EQ(pairs.rows[4].predicted, PairedLevels::none) << "ended";
  EXPECT_EQ(pairs.rows[5].profiled, PairedLevels::none);
}

TEST(MemoryBands, PairsLeaveOutWhatLastsNoTime) {
  MemoryLevels flat = three();
  flat.levels[1].begin = flat.levels[0].begin;
  const PairedLevels pairs = paired(flat, {});
  ASSERT_EQ(pairs.rows.size(), 3u);
  EXPECT_EQ(pairs.rows[0].predicted, 1u) << "the later one of two that begin at 10";
}

TEST(BandColumns, AColumnKeepsAPeakThatIsMuchNarrower) {
  MemoryLevels levels{.levels = {level(0, 10)}, .end = 1e9};
  levels.levels.push_back(level(5e8, 9999));
  levels.levels.push_back(level(5e8 + 1, 10));
  const Extremes totals = shown_totals(levels, all_bands);
  const auto columns = band_columns(begins_of(levels), levels.end, totals, {0, 1e9}, 7);
  EXPECT_EQ(columns[3].highest, 1u);
  EXPECT_EQ(columns[3].lowest, 0u);
  EXPECT_EQ(columns[2].highest, 0u);
  EXPECT_EQ(columns[4].highest, 2u);
}

TEST(BandColumns, NothingIsShownBeforeTheFirstLevelAndFromTheEndOn) {
  const MemoryLevels levels = three();
  const auto columns =
      band_columns(begins_of(levels), levels.end, shown_totals(levels, all_bands), {0, 60}, 6);
  EXPECT_TRUE(columns[0].empty());
  EXPECT_EQ(columns[1].highest, 0u);
  EXPECT_EQ(columns[3].highest, 2u);
  EXPECT_TRUE(columns[4].empty());
}

TEST(BandColumns, AtEveryZoomEqualTheirDefinition) {
  std::mt19937 random(7);
  for (const int count : {1, 15, 16, 17, 300, 5000}) {
    const MemoryLevels levels = random_levels(random, count);
    for (const BandSet shown : {all_bands, BandSet().set(activations)}) {
      const Extremes totals = shown_totals(levels, shown);
      for (int zoom = 0; zoom < 12; ++zoom) {
        // Quarters are exact, so that both sides speak of the same edges.
        const double begin = static_cast<double>(random() % 400) / 4 - 10;
        const double width = static_cast<double>(1 + random() % 40) / 4;
        constexpr std::size_t columns = 32;
        const TimeRange range{begin, begin + width * columns};
        const auto found = band_columns(begins_of(levels), levels.end, totals, range, columns);
        for (std::size_t i = 0; i < columns; ++i) {
          const double from = begin + width * static_cast<double>(i);
          ASSERT_EQ(found[i], column_by_definition(levels, shown, from, from + width))
              << count << " levels, column " << i << " from " << from << " by " << width;
        }
      }
    }
  }
}

}  // namespace
}  // namespace shardscope::gui
