#include "backend/recorder/device/convolution_workspace.h"

#include <cstddef>

namespace shardscope::recorder {
namespace {

constexpr std::int64_t piece = 16;

std::int64_t product_of(const std::vector<std::int64_t>& sizes, std::size_t first) {
  std::int64_t product = 1;
  for (std::size_t i = first; i < sizes.size(); ++i) product *= sizes[i];
  return product;
}

/// Of N x channels x ...: the places of one image or kernel.
std::int64_t places_of(const std::vector<std::int64_t>& sizes) { return product_of(sizes, 2); }

std::int64_t bytes_of(const std::vector<std::int64_t>& sizes, std::int64_t element) {
  return product_of(sizes, 0) * element;
}

}  // namespace

std::int64_t workspace_of(const PlannedConvolution& convolution) {
  const auto& [input, weight, output, element, channels_last] = convolution;
  if (input.size() < 3 || weight.size() < 3 || output.size() < 3) return 0;
  const bool has_groups = input[1] != weight[1];
  if (has_groups) return 0;
  const bool has_few_channels = weight[1] * element < piece;
  if (channels_last) {
    if (!has_few_channels) return 0;
    return (input[0] * places_of(input) + weight[0] * places_of(weight)) * piece + piece;
  }
  const std::int64_t kernel = places_of(weight), places = places_of(output);
  if (kernel == 1 && places == places_of(input) && places * element % piece == 0) return 0;
  constexpr std::int64_t three_by_three = 9;
  if (has_few_channels && kernel == three_by_three) return 0;  // they have a kernel of their own
  return bytes_of(input, element) + bytes_of(output, element) +
         (kernel > 1 ? bytes_of(weight, element) : 0) + piece;
}

}  // namespace shardscope::recorder
