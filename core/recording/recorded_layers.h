// Layers that cuDNN computes: convolutions, recurrent networks, batch normalization.
#pragma once

#include <optional>

#include "core/recording/recorded_operator.h"
#include "core/schedule/device_work.h"

namespace shardscope {

/// cuDNN's convolution as products, one for each group: places x (channels x kernel) by channels.
/// A backward has one for each gradient that is asked for. None where a group has so few channels
/// that no product is computed, and of other operators. Source: torch/utils/flop_counter.py.
std::optional<DeviceWork> convolution_of(const RecordedCall& call);

/// LSTM, GRU and plain recurrent networks of cuDNN.
std::optional<DeviceWork> recurrent_of(const RecordedCall& call);

/// Batch normalization with the statistics of this batch. The input is read for the statistics and
/// once more to be normalized; a backward reads input and gradient twice.
std::optional<DeviceWork> batch_norm_of(const RecordedCall& call);

}  // namespace shardscope
