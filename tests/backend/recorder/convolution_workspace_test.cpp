// What the simulated device says that convolutions want beside their tensors, and what cuDNN 9.19
// wanted on an H100.
#include "backend/recorder/device/convolution_workspace.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "core/format/csv_reader.h"

namespace shardscope::recorder {
namespace {

class Measured {
 public:
  std::size_t rows() const { return table_.rows(); }
  std::string text(std::size_t row, std::string_view name) const {
    return std::string(table_.field(row, *table_.column(name)));
  }
  std::int64_t number(std::size_t row, std::string_view name) const {
    return std::stoll(text(row, name));
  }
  std::vector<std::int64_t> numbers(std::size_t row, std::string_view name) const {
    std::istringstream words(text(row, name));
    std::vector<std::int64_t> all;
    for (std::int64_t one = 0; words >> one;) all.push_back(one);
    return all;
  }

 private:
  CsvTable table_ = CsvTable::read_file(SOURCE_ROOT "/tests/data/cudnn/convolutions.csv");
};

PlannedConvolution convolution(const Measured& measured, std::size_t row) {
  const auto number = [&](std::string_view name) { return measured.number(row, name); };
  const std::int64_t batch = number("batch"), size = number("size"), kernel = number("kernel"),
                     inputs = number("inputs"), outputs = number("outputs");
  const std::int64_t side = (size + 2 * number("padding") - kernel) / number("stride") + 1;
  const bool is_last = measured.text(row, "channels_last") == "true";
  return {.input = {batch, inputs, size, size},
          .weight = {outputs, inputs, kernel, kernel},
          .output = {batch, outputs, side, side},
          .element = is_last ? 2 : 4,
          .channels_last = is_last};
}

// The first allocation of a forward is its output. Some plans add up to 0.6 kB.
TEST(ConvolutionWorkspace, OfForwardsIsThatOfCudnnOnAnH100) {
  const Measured measured;
  ASSERT_EQ(measured.rows(), 76U);
  std::size_t exact = 0;
  std::int64_t said = 0, wanted = 0;
  for (std::size_t row = 0; row < measured.rows(); ++row) {
    const std::vector<std::int64_t> bytes = measured.numbers(row, "forward_bytes");
    const std::int64_t real = bytes.size() > 1 ? bytes[1] : 0;
    const std::int64_t ours = workspace_of(convolution(measured, row));
    constexpr std::int64_t little = 600;
    if (std::abs(real - ours) < little) ++exact;
    said += ours;
    wanted += real;
  }
  // Not: two of 3 x 3 that want the output's copy no more, one of stride 2 the same, two patches of
  // 16 x 16 in float32 that want nothing, two in bfloat16 that want parts of sums.
  EXPECT_GE(exact, 69U);
  EXPECT_NEAR(static_cast<double>(said), static_cast<double>(wanted),
              0.05 * static_cast<double>(wanted));
}

// 8 images of 64 channels, 56 x 56, in float32: 6,422,528 bytes in and out; 64 x 64 x 9 weights are
// 147,456. A kernel of one place with the same tensors wants nothing; of 7 x 7 places, whose rows
// have 196 bytes, it wants both copies (8 x 2048 and 8 x 512 channels).
TEST(ConvolutionWorkspace, HoldsCopiesWithChannelsLast) {
  PlannedConvolution layer{
      .input = {8, 64, 56, 56}, .weight = {64, 64, 3, 3}, .output = {8, 64, 56, 56}, .element = 4};
  EXPECT_EQ(workspace_of(layer), 2 * 6'422'528 + 147'456 + 16);
  layer.weight = {64, 64, 1, 1};
  EXPECT_EQ(workspace_of(layer), 0);
  EXPECT_EQ(workspace_of({.input = {8, 2048, 7, 7},
                          .weight = {512, 2048, 1, 1},
                          .output = {8, 512, 7, 7},
                          .element = 4}),
            3'211'264 + 802'816 + 16);
  EXPECT_EQ(workspace_of({.input = {8, 64, 56, 56},
                          .weight = {64, 64, 3, 3},
                          .output = {8, 64, 56, 56},
                          .element = 2,
                          .channels_last = true}),
            0);
  EXPECT_EQ(workspace_of({}), 0);
  // Of convolutions with groups nothing is known.
  EXPECT_EQ(workspace_of({.input = {8, 64, 56, 56},
                          .weight = {64, 1, 3, 3},
                          .output = {8, 64, 56, 56},
                          .element = 2,
                          .channels_last = true}),
            0);
}

}  // namespace
}  // namespace shardscope::recorder
