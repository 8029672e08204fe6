// Errors of predictions by source: worked out by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/validate/validation.h"

namespace shardscope::testing {
namespace {

ValidatedRow row(const std::string& source, double predicted_s, double measured_s,
                 const std::string& group = "one") {
  return {.source = source,
          .repository = source.substr(0, source.find(' ')),
          .group = group,
          .tokens_per_gpu = 1000,
          .predicted = Duration::from_seconds(predicted_s),
          .low = Duration::from_seconds(0.9 * predicted_s),
          .high = Duration::from_seconds(1.1 * predicted_s),
          .measured = Duration::from_seconds(measured_s)};
}

TEST(Validation, ErrorsAreOverWhatWasMeasured) {
  // +10%, -20%, +50%: mean 80/3, median 20, worst +50.
  const std::vector<ValidatedRow> rows{row("a/b @1", 1.1, 1), row("a/b @2", 0.8, 1),
                                       row("a/b @2", 3, 2)};
  const auto sources = statistics_by_source(rows);
  ASSERT_EQ(sources.size(), 1u);
  EXPECT_EQ(sources[0].source, "a/b");
  EXPECT_EQ(sources[0].rows, 3);
  EXPECT_NEAR(sources[0].mean_abs_error, 0.8 / 3, 1e-9);
  EXPECT_NEAR(sources[0].median_abs_error, 0.2, 1e-9);
  EXPECT_NEAR(sources[0].worst_error, 0.5, 1e-9);
}

TEST(Validation, TheMedianOfAnEvenNumberLiesBetween) {
  const std::vector<ValidatedRow> rows{row("a", 1.1, 1), row("a", 1.3, 1)};
  EXPECT_NEAR(statistics_of(rows).median_abs_error, 0.2, 1e-9);
}

TEST(Validation, KendallsTauCountsPairsWithinGroups) {
  // Group one: measured 1 < 2 < 3, predicted 1, 3, 2: two pairs agree, one does not. Group two
  // alone has no pair.
  const std::vector<ValidatedRow> rows{row("a", 1, 1), row("a", 3, 2), row("a", 2, 3),
                                       row("a", 9, 0.5, "two")};
  EXPECT_NEAR(statistics_of(rows).kendall_tau.value(), 1.0 / 3, 1e-9);
}

TEST(Validation, WithoutAPairThereIsNoOrder) {
  const std::vector<ValidatedRow> rows{row("a", 1, 1)};
  EXPECT_EQ(statistics_of(rows).kendall_tau, std::nullopt);
}

TEST(Validation, BandsCoverWhatLiesInThem) {
  const std::vector<ValidatedRow> rows{row("a", 1, 1.05), row("a", 1, 1.2), row("a", 1, 0.9)};
  EXPECT_NEAR(statistics_of(rows).band_coverage, 2.0 / 3, 1e-9);
}

TEST(Validation, RowsThatAreNotPredictedOrNotMeasuredDoNotCount) {
  std::vector<ValidatedRow> rows{row("a", 1, 1), row("b", 1, 9), row("c", 1, 9)};
  rows[1].predicted.reset();
  rows[2].measured.reset();
  EXPECT_EQ(statistics_of(rows).rows, 1);
  EXPECT_EQ(statistics_by_source(rows).size(), 1u);
}

}  // namespace
}  // namespace shardscope::testing
