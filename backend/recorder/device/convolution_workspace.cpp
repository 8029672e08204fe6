#include "backend/recorder/device/convolution_workspace.h"

#include <cstddef>

#include "core/schedule/convolution_rules.h"

namespace shardscope::recorder {
namespace {

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
  constexpr std::int64_t piece = convolution_piece_bytes;
  const bool few_channels = has_few_channels(weight[1], element);
  const ConvolutionPlaces places{
      .input = places_of(input), .kernel = places_of(weight), .output = places_of(output)};
  if (channels_last) {
    if (!few_channels) return 0;
    return (input[0] * places.input + weight[0] * places.kernel) * piece + piece;
  }
  if (is_plain_product(places, element)) return 0;
  constexpr std::int64_t three_by_three = 9;
  if (few_channels && places.kernel == three_by_three) return 0;  // they have their own kernel
  return bytes_of(input, element) + bytes_of(output, element) +
         (places.kernel > 1 ? bytes_of(weight, element) : 0) + piece;
}

}  // namespace shardscope::recorder
