// How kernels of cuDNN's convolutions on tensor cores want their tensors to lie. The simulated
// device, which links nothing of ours, asks for it, too: all of it is in this header.
#pragma once

#include <cstdint>

namespace shardscope {

/// What these kernels load at once, in bytes: channels of one place, side by side.
inline constexpr std::int64_t convolution_piece_bytes = 16;

/// Numbers of places in one image of the input, in the kernel, and in one image of the output.
struct ConvolutionPlaces {
  std::int64_t input = 1, kernel = 1, output = 1;
};

/// A kernel of one place at every place: a product of the matrix that an image is, as it lies. Rows
/// must be whole pieces.
constexpr bool is_plain_product(const ConvolutionPlaces& places, std::int64_t element_bytes) {
  return places.kernel == 1 && places.input == places.output &&
         places.input * element_bytes % convolution_piece_bytes == 0;
}

/// Whether the channels of a group do not fill a piece.
constexpr bool has_few_channels(std::int64_t channels, std::int64_t element_bytes) {
  return channels * element_bytes < convolution_piece_bytes;
}

}  // namespace shardscope
